"""Refuses writes that would replace something other than a file, or leave the directory that the user named.

Files are written under a temporary name and renamed. A rename replaces whatever is there, and for the superuser that
includes ``/dev/null``. It follows every link in its path: a link inside a directory that came from somebody else could
redirect it anywhere, and the same holds for deletions.
"""

from __future__ import annotations

import os
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.foreign.files import kind_of, real_path

_DEVICES = Path("/dev")
"""Where every name is a device or a link to one; directories in it, such as /dev/shm, are like any other."""


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
