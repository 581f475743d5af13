"""Zip archives that others wrote: the list of their files, which is read at once, is bounded first."""

from __future__ import annotations

from typing import IO

_END = b"PK\x05\x06"
_LONGEST_END = 2**16 + 22


def check_listing(file: IO[bytes], most: int) -> None:
    """Raises ValueError if a file is no zip archive, or if the list of its files has more than ``most`` bytes.

    Every file in the list takes a few bytes there and many times as many in memory.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_END))
    end = file.read()
    place = end.rfind(_END)
    if place < 0 or int.from_bytes(end[place + 12 : place + 16], "little") > most:
        raise ValueError("no zip archive, or one of too many files")
    file.seek(0)
