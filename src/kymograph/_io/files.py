"""Opens untrusted files without ever blocking, within limits; refuses writes that would leave the user's directory.

Reading a pipe, a device or a socket could block; a sparse file of a terabyte takes no space but would fill the memory;
a link inside a directory of runs can lead anywhere. All of these are rejected before a byte is read.

Files are written under a temporary name and renamed. A rename replaces whatever is there, and for the superuser that
includes ``/dev/null``. It follows every link in its path: a link inside a directory that came from somebody else could
redirect it anywhere, and the same holds for deletions.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from kymograph._errors import KymographError

AnyPath = str | Path
MAX_DOCUMENT = 64 * 2**20
"""The most bytes of a JSON file."""
MAX_SETTINGS = 8 * 2**20
"""The most bytes of a TOML file of settings or claims, which takes about a second per MiB to parse."""
MAX_SOURCE = 16 * 2**20
"""The most bytes of a Python file."""
MAX_TABLE = 256 * 2**20
"""The most bytes of a CSV file, a segment of the log, or a log that another program wrote."""
MAX_TENSORS = 2**30
"""The most bytes of a tensor file."""
_CHUNK = 2**24
_DEVICES = Path("/dev")
"""Where every name is a device or a link to one; directories in it, such as /dev/shm, are like any other."""
# Do not block on a pipe, and do not acquire a controlling terminal.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"))
_KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def real_path(path: str | os.PathLike[str]) -> Path:
    """Returns a path with its symbolic links resolved; circular links are left as they are.

    Before Python 3.13, ``Path.resolve`` raises RuntimeError for these.
    """
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a null byte
        raise KymographError(f"{os.fspath(path)!r} is not a valid file name") from None


def kind_of(mode: int) -> str | None:
    """Returns in words what a file of this mode is, e.g. ``a pipe``; None if it is a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((words for is_kind, words in _KINDS.items() if is_kind(mode)), "not a regular file")


def _open(path: AnyPath, limit: int, follow: bool) -> tuple[int, int]:
    """Opens a regular file of at most ``limit`` bytes; returns its descriptor, for the caller to close, and size."""
    try:
        # Plain system calls: a directory of ten thousand runs has forty thousand files.
        handle = os.open(path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise KymographError(f"{path} is a symbolic link, which is not followed") from None
        if error.errno == errno.ENXIO:
            raise KymographError(f"{path} is a socket or a device, not a file; it was not read") from None
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:  # a null byte
        raise KymographError(f"{str(path)!r} is not a valid file name") from None
    try:
        status = os.fstat(handle)
        size, kind = status.st_size, kind_of(status.st_mode)
        if kind is not None:
            raise KymographError(f"{path} is {kind}, not a file; it was not read")
        if size > limit:
            raise KymographError(f"{path} has {size:,} bytes, more than the limit of {limit:,}; it was not read")
    except BaseException:
        os.close(handle)
        raise
    return handle, size


@contextlib.contextmanager
def _opened(path: AnyPath, limit: int, follow: bool) -> Iterator[tuple[int, int]]:
    """Opens a file as `_open` does, and closes it; yields its descriptor and its size."""
    handle, size = _open(path, limit, follow)
    try:
        yield handle, size
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    finally:
        os.close(handle)


def read_bytes(
    path: AnyPath,
    limit: int,
    *,
    follow: bool = True,
    recorded: Mapping[str, Any] | None = None,
    remedy: str = "",
    start: int = 0,
) -> bytes:
    """Returns the content of a regular file of at most ``limit`` bytes; raises a KymographError if it cannot be read.

    Args:
        path: the file.
        limit: the most bytes that it may have.
        follow: whether to follow a symbolic link: yes if the user named the file, no if it was found in a directory.
        recorded: its ``bytes`` and ``sha256`` when it was written, which must both match.
        remedy: the advice for a file that does not match them.
        start: how many bytes at its beginning to leave out.
    """
    advice = f"; {remedy}" if remedy else ""
    handle, size = _open(path, limit, follow)
    try:
        if recorded is not None and size != recorded.get("bytes"):
            raise KymographError(f"{path} is cut off or edited{advice}")
        if start:
            size = max(0, size - os.lseek(handle, start, os.SEEK_SET))
        content = os.read(handle, size)
        while len(content) < size and (more := os.read(handle, min(size - len(content), _CHUNK))):
            content += more
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    finally:
        os.close(handle)
    if recorded is not None and hashlib.sha256(content).hexdigest() != recorded.get("sha256"):
        raise KymographError(f"{path} was cut off or edited after the run{advice}")
    return content


def read_text(path: AnyPath, limit: int, *, follow: bool = True, errors: str = "strict") -> str:
    """Returns the content of a UTF-8 text file, without a byte-order mark."""
    content = read_bytes(path, limit, follow=follow)
    try:
        return content.decode("utf-8-sig", errors)
    except UnicodeDecodeError:
        raise KymographError(f"{path} is not UTF-8 text") from None


def file_digest(path: AnyPath, limit: int, *, follow: bool = True) -> str:
    """Returns the SHA-256 of a file, in hex digits, without holding it in memory."""
    total = hashlib.sha256()
    with _opened(path, limit, follow) as (handle, _):
        while chunk := os.read(handle, _CHUNK):
            total.update(chunk)
    return total.hexdigest()


@contextlib.contextmanager
def opened(path: AnyPath, limit: int, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Opens a regular file of at most ``limit`` bytes, for formats that need random access, such as zip."""
    with _opened(path, limit, follow) as (handle, _), os.fdopen(handle, "rb", closefd=False) as file:
        yield file


def is_file(path: AnyPath) -> bool:
    """Returns whether ``path`` is a regular file; False if it cannot be accessed or has an invalid name."""
    return os.path.isfile(path)  # unlike Path.is_file, it does not raise for names that are too long


def is_directory(path: AnyPath) -> bool:
    """Returns whether ``path`` is a directory; False if it cannot be accessed or has an invalid name."""
    return os.path.isdir(path)


Stamp = tuple[int, int, int]


def stamp_of(path: AnyPath) -> Stamp | None:
    """Returns a file's modification time, size and inode, which change when it is replaced or edited; None: no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def entries(directory: AnyPath) -> list[os.DirEntry[str]]:
    """Returns the entries of a directory, sorted by name; raises OSError if it cannot be read."""
    with os.scandir(directory) as listing:  # closed at once, even if the caller fails on an entry
        return sorted(listing, key=lambda entry: entry.name)


def matching(root: Path, *patterns: str) -> list[Path]:
    """Returns the paths below ``root`` that match one of the patterns, sorted; none if there is no such directory."""
    try:
        return sorted(path for pattern in patterns for path in root.glob(pattern))
    except ValueError:  # a null byte; before Python 3.13 such a directory merely had no files
        raise KymographError(f"{str(root)!r} is not a valid file name") from None


def is_directory_entry(entry: os.DirEntry[str]) -> bool:
    """Returns whether an entry is, or links to, a directory; circular links do not."""
    try:
        return entry.is_dir()  # needs a system call only for links
    except OSError:
        return False


def check_replaceable(path: Path) -> None:
    """Raises unless ``path`` is free, a regular file, or a link to one or to nothing."""
    if real_path(path.parent) == _DEVICES:
        raise KymographError(f"cannot write {path}: {path.parent} is for devices; choose another path")
    try:
        kind = kind_of(os.stat(path).st_mode)
    except OSError:
        return  # free, or an error that writing will meet again
    except ValueError:  # a null byte
        raise KymographError(f"{str(path)!r} is not a valid file name") from None
    if kind is not None:
        raise KymographError(f"cannot write {path}: it is {kind}, not a file; choose another path")


def is_inside(path: str | os.PathLike[str], root: Path) -> bool:
    """Returns whether ``path``, with its links followed, lies below ``root``, which may itself be a link."""
    return real_path(path).is_relative_to(real_path(root))


def check_inside(path: Path, root: Path) -> None:
    """Raises if a link on the way from ``root`` down to ``path`` leads outside of ``root``."""
    if is_inside(path, root):
        return
    entry = root
    for part in path.relative_to(root).parts:
        entry = entry / part
        if not is_inside(entry, root):
            raise KymographError(
                f"{entry} is a link that leads outside of {root}, which is not followed; remove it, or name "
                "the directory that it leads to"
            )


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
