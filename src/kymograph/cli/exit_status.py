"""How a command ends: whatever was raised becomes one sentence and an exit code, never a bare traceback.

| code | what ended the command |
|---|---|
| 0 | everything that was asked for was done |
| 1 | something that the user can fix: one sentence says what |
| 2 | a command line that cannot be understood |
| 70 | a bug in this program: its traceback is in a file that the sentence names |
| 130 | Ctrl-C |
"""

from __future__ import annotations

import errno
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from kymograph.errors import KymographError, UsageError

FAILED, MISUSED, FAULT, INTERRUPTED = 1, 2, 70, 130
_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another directory",
    errno.EDQUOT: "free some of your quota, or choose another directory",
    errno.EROFS: "choose a directory that can be written",
    errno.EACCES: "ask for permission, or choose another path",
    errno.EPERM: "ask for permission, or choose another path",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENOMEM: "free some memory, or ask for less at a time",
}
_NO_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")
"""What torch's allocators say; they raise a RuntimeError."""


def exit_status(error: BaseException, words: Sequence[str] = ()) -> tuple[str, int]:
    """Returns the sentence, empty if there is nothing to say, and the exit code for what a command raised.

    ``words`` is the command line, which is saved with the traceback of a bug.
    """
    if isinstance(error, KymographError):
        return str(error), MISUSED if isinstance(error, UsageError) else FAILED
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; run the same command again to resume", INTERRUPTED
    if isinstance(error, BrokenPipeError):  # e.g. `kymograph list | head`: the reader has seen enough
        return "", FAILED
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _is_about_memory(error)):
        return "there is not enough memory for this; free some, or ask for less at a time", FAILED
    if isinstance(error, RecursionError):
        where = _saved(error, words)
        return f"something is nested too deeply to be processed; simplify it (traceback: {where})", FAILED
    if isinstance(error, OSError) and error.strerror:
        return _about_a_file(error), FAILED
    kind = type(error).__name__
    return (
        f"sorry, this is a bug in kymograph ({kind}); please report it with {_saved(error, words)}",
        FAULT,
    )


def _is_about_memory(error: RuntimeError) -> bool:
    text = str(error).lower()
    return any(words in text for words in _NO_MEMORY)


def _about_a_file(error: OSError) -> str:
    """Returns the system's message about a file, and what to do about it."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    subject = " and ".join(names) or "the output"
    remedy = _REMEDIES.get(error.errno or 0, "check the path")
    return f"cannot read or write {subject}: {error.strerror}; {remedy}"


def _saved(error: BaseException, words: Sequence[str]) -> str:
    """Writes the traceback to a file that only this user can read; returns its path, or how else to see it.

    It does not go into the directory of runs, which may belong to somebody else or be sent to them.
    """
    text = "\n".join(
        [
            f"kymograph {version('kymograph')}, Python {platform.python_version()}, {platform.platform()}",
            f"command: kymograph {' '.join(words)}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    name = time.strftime("traceback-%Y%m%d-%H%M%S-", time.gmtime())
    for directory in (state_directory(), Path(tempfile.gettempdir())):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(prefix=name, suffix=".txt", dir=directory)  # readable by its owner alone
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return path
    return "what the same command prints with --debug"


def state_directory() -> Path:
    """Returns the user's directory for logs and other state of this program."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return Path(base or Path.home() / "AppData" / "Local") / "kymograph"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Logs" / "kymograph"
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "state") / "kymograph"
