"""A command run in this process under watch: its time, its memory, every write it makes, and what it says.

The rules that no input may break (`faults`): one sentence and exit code 0, 1 or 2, never a traceback; less than 20
seconds and 2 GB; nothing written outside, nothing started, nobody called.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from kymograph._cli.main import main

SECONDS, BYTES = 20.0, 2 * 2**30
PATIENCE = 60.0
"""Seconds by the clock after which a command that computes nothing hangs; a busy machine takes its time."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ONE_PATH = {"os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "shutil.rmtree"}
_TWO_PATHS = {"os.rename", "os.link", "os.symlink"}
_FORBIDDEN = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "os.startfile"}
_GENERIC = ("sorry, this is a bug", "not enough memory", "nested too deeply to be processed")
"""Endings of last resort: a reader that meets one has let something through."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Hang(BaseException):
    """Raised in a command that takes too long."""


@dataclass
class Watched:
    """What a command did."""

    words: Sequence[str]
    code: int | None = None
    out: str = ""
    err: str = ""
    hung: bool = False
    peak: int = 0
    """The most memory that the process had, in bytes."""
    writes: list[str] = field(default_factory=list)
    """What was written, as absolute paths."""
    forbidden: list[str] = field(default_factory=list)
    """Programs started and hosts called."""

    def faults(self, may_write: Sequence[Path]) -> list[str]:
        """Returns which rules the command broke; it may write below ``may_write``."""
        found = []
        if self.hung:
            found.append(f"it took more than {SECONDS:g} s of the processor, or waited for {PATIENCE:g} s")
        elif self.code not in (0, 1, 2):
            found.append(f"exit code {self.code}")
        if "Traceback (most recent call last)" in self.err + self.out:
            found.append("a traceback")
        found += [f"an ending of last resort: {words!r}" for words in _GENERIC if words in self.err]
        if self.peak > BYTES:
            found.append(f"{self.peak / 2**30:.1f} GB of memory")
        roots = [os.path.realpath(root) for root in may_write]
        outside = [path for path in self.writes if not any(_is_below(path, root) for root in roots)]
        found += [f"it wrote {path}" for path in dict.fromkeys(outside)]
        found += [f"it started or called {what}" for what in self.forbidden]
        said = self.err.splitlines()
        starts = [index for index, line in enumerate(said) if line.startswith("kymograph: ")]
        if not self.hung and self.code and not starts and not self.out.strip() and not self.err.strip():
            found.append("it failed without a word")
        if starts and starts[0] != len(said) - 1:
            found.append("its error is more than one line")
        if _CONTROL.search(self.out + self.err):
            found.append("control characters in what it says")
        return found


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep) or path in ("/dev/null", "/dev/tty")


_watching: Watched | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes writes and forbidden calls of the command that runs now."""
    watched = _watching
    if watched is None:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = (isinstance(flags, int) and flags & _WRITING) or (isinstance(mode, str) and set(mode) & set("wax+"))
        if writes and isinstance(path, str | bytes):
            watched.writes.append(_absolute(path))
    elif event in _ONE_PATH and isinstance(arguments[0], str | bytes | os.PathLike):
        watched.writes.append(_absolute(arguments[0], arguments[-1] if len(arguments) > 1 else None))
    elif event in _TWO_PATHS:
        watched.writes += [_absolute(one) for one in arguments[event == "os.symlink" : 2] if not isinstance(one, int)]
    elif event == "sqlite3.connect":
        name = str(arguments[0])
        if name not in (":memory:", "") and "mode=ro" not in name:
            watched.writes.append(_absolute(name.removeprefix("file:").split("?")[0]))
    elif event in _FORBIDDEN and arguments[0] != "uname":  # Python's own way to find the processor's name
        watched.forbidden.append(f"{event}{arguments!r}"[:200])


def _absolute(path: Any, directory: Any = None) -> str:
    """Returns where a name leads, its last part not followed: a link that is replaced is itself what is written.

    ``directory`` is the handle of the directory that the name starts from, if it is not -1 or None.
    """
    start = os.readlink(f"/proc/self/fd/{directory}") if isinstance(directory, int) and directory >= 0 else ""
    text = os.path.abspath(os.path.join(start, os.fsdecode(path)))
    return os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Ends what takes too long, and refuses memory beyond the limit."""

    def end(number: int, frame: Any) -> None:
        raise Hang

    kinds = ((signal.ITIMER_PROF, signal.SIGPROF, SECONDS), (signal.ITIMER_REAL, signal.SIGALRM, PATIENCE))
    before = {number: signal.signal(number, end) for _, number, _ in kinds}
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + BYTES, hard))
    for timer, _, seconds in kinds:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, number, _ in kinds:
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _memory(what: str) -> int:
    """Returns a line of the process's status in bytes, e.g. the most that it had in memory (VmHWM)."""
    found = re.search(rf"^{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def watch(words: Sequence[str], directory: Path, temporary: Path) -> Watched:
    """Runs a command in ``directory``, with ``temporary`` for temporary files; returns what it did."""
    global _watching
    if not _hooked.is_set():
        _hooked.set()
        sys.addaudithook(_audit)
    watched = Watched(words)
    # As strict as a real terminal: what cannot be encoded there must not pass here.
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    where, before = os.getcwd(), tempfile.tempdir
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the highest mark
    os.chdir(directory)
    tempfile.tempdir = str(temporary)
    try:
        at_home = mock.patch.dict(os.environ, {"XDG_STATE_HOME": str(temporary)})
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_home, _limits():
            _watching = watched
            main(list(words))
    except SystemExit as exit_:
        watched.code = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    except Hang:
        watched.hung = True
    except BaseException as error:
        watched.err = f"Traceback (most recent call last): {type(error).__name__}: {error}"
    finally:
        _watching = None
        os.chdir(where)
        tempfile.tempdir = before
        watched.peak = _memory("VmHWM")
    watched.out = _text(out)
    watched.err += _text(err)
    return watched


_hooked = threading.Event()


def _text(stream: io.TextIOWrapper) -> str:
    with contextlib.suppress(ValueError):
        stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
