"""Untrusted zip archives: the size of their central directory is checked before it is read."""

from __future__ import annotations

from typing import IO

_END, _END_SIZE = b"PK\x05\x06", 22
_LOCATOR, _LOCATOR_SIZE = b"PK\x06\x07", 20
_END64, _END64_SIZE = b"PK\x06\x06", 56
_LONGEST_COMMENT = 2**16


def check_listing(file: IO[bytes], most: int) -> None:
    """Raises ValueError if a file is not a zip archive, or if its central directory has more than ``most`` bytes.

    An entry takes a few bytes there and many times as much memory when read.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_COMMENT - _END_SIZE - _LOCATOR_SIZE - _END64_SIZE))
    end = file.read()
    # Readers take the end of the file for the record if it looks like one, and search for it otherwise.
    starts = {end.rfind(_END), len(end) - _END_SIZE}
    sizes = [
        _listing_size(end, at) for at in starts if end[max(at, 0) :].startswith(_END) and len(end) - at >= _END_SIZE
    ]
    if not sizes or max(sizes) > most:
        raise ValueError("not a zip archive, or one with too many files")
    file.seek(0)


def _listing_size(end: bytes, at: int) -> int:
    """Returns the larger of the sizes that the record at ``at`` and its 64-bit extension, if any, declare."""
    size = int.from_bytes(end[at + 12 : at + 16], "little")
    locator = at - _LOCATOR_SIZE
    if locator < 0 or not end.startswith(_LOCATOR, locator):
        return size
    extension = locator - _END64_SIZE
    if extension < 0 or not end.startswith(_END64, extension):  # elsewhere, where readers disagree about it
        raise ValueError("not a zip archive that kymograph can read")
    size64 = int.from_bytes(end[extension + 40 : extension + 48], "little")
    return size64 if size == 2**32 - 1 else max(size, size64)
