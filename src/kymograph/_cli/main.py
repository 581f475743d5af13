"""The command line: finds the verb, runs it, and turns whatever ends it into a sentence and an exit code.

| code | what ended the command |
|---|---|
| 0 | everything that was asked for was done |
| 1 | something that the user can fix: one sentence says what |
| 2 | a command line that cannot be understood |
| 70 | a bug in this program: its traceback is in a file that the sentence names |
| 130 | Ctrl-C |

A verb is a function in a module of `kymograph._cli.verbs`, or of a package that names it as an entry point of the group
``kymograph.verbs``. The usage text is put together from what the modules declare, so that printing it imports none of
them.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import platform
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from kymograph._cli.output import columns, guarded_output, note
from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._registry import Part, Registry
from kymograph._wording import folded, line_width

VERBS = Registry("kymograph.verbs", "kymograph._cli.verbs", "main")
GROUPS = {
    "experiment": "make runs, and find them again",
    "judge": "claims and their verdicts",
    "look": "figures, a report, other programs",
    "science": "learning rules, networks and data; what installed packages add",
    "maintenance": "this installation and its data",
}
"""The groups of verbs, as ``"group"`` in a verb's ``PART`` names them, in the order of the usage text."""
OTHER = "science"
"""The group of a verb that names none of these: it comes with an installed package, as those of the science do."""
_RENAMED = {"list": "studies", "runs": "show"}
"""Verbs that have another name since; the old one still works, and says the new one."""
_GONE = {"bench": "`make bench` in a clone of the repository times this package"}
"""Verbs of earlier versions, and what to do instead."""
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
_NO_MEMORY = re.compile("not enough memory|can't allocate memory|out of memory", re.IGNORECASE)
"""What torch's allocators say; they raise a RuntimeError."""


_COLLECT_AFTER = 100_000
"""Objects between two garbage collections: at the default of 700, reading ten thousand runs is a tenth slower."""


@guarded_output()
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb; exits with 0 only if everything asked for was done (`kymograph._cli.main` has the codes)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    _ignore_matplotlibrc()
    gc.set_threshold(_COLLECT_AFTER)
    before, threading.excepthook = threading.excepthook, _end_of_a_thread
    try:
        try:
            code = run_verb([word for word in words if word != "--debug"], debug)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # so that a closed pipe is noticed here, not while the interpreter shuts down
    except (Exception, KeyboardInterrupt) as error:
        code = _end(error, words, debug)
    finally:
        threading.excepthook = before
    sys.exit(code)


def _ignore_matplotlibrc() -> None:
    """Imports matplotlib from elsewhere if the current directory has settings for it, which would be read first."""
    if os.path.lexists("matplotlibrc"):
        with contextlib.suppress(ImportError, OSError), contextlib.chdir(os.sep):
            import matplotlib  # noqa: F401


def run_verb(words: list[str], debug: bool = False) -> int:
    """Runs the verb that the first word names, with the other words; returns its exit code.

    A verb that trains (``"debug": True`` in its ``PART``) also gets ``--debug``, and prints the tracebacks of its runs.
    """
    if words[:1] == ["help"] and "help" not in VERBS.names():
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(usage(), end="")
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"kymograph {version('kymograph')}")
        return 0
    verb, known = words[0], VERBS.names()
    if verb in _RENAMED and verb not in known:
        note(f"`kymograph {verb}` is now `kymograph {_RENAMED[verb]}`")
        verb = _RENAMED[verb]
    if verb not in known:
        instead = f"; {_GONE[verb]}" if verb in _GONE else did_you_mean(verb, [*known, "--help", "--version"])
        raise UsageError(f"there is no {'option' if verb.startswith('-') else 'verb'} {verb!r}{instead}")
    takes_debug = debug and VERBS.part(verb).properties.get("debug") is True
    run: Callable[[list[str]], int] = VERBS.load(verb)
    return run([*words[1:], *(["--debug"] if takes_debug else [])])


def verbs_by_group() -> dict[str, list[Part]]:
    """Returns the verbs of each group, in declared order; groups without verbs are left out."""
    groups: dict[str, list[Part]] = {group: [] for group in GROUPS}
    for part in VERBS.parts().values():
        groups.get(str(part.properties.get("group")), groups[OTHER]).append(part)
    return {group: parts for group, parts in groups.items() if parts}


def usage() -> str:
    """Returns the usage text: a line for every verb, under the heading of its group."""
    width = line_width()
    groups = {
        group: [(str(part.properties.get("usage", part.name)), part.about) for part in parts]
        for group, parts in verbs_by_group().items()
    }
    left = max(len(name) for rows in groups.values() for name, _ in rows)
    listed = "\n\n".join(
        f"{folded(f'{group}: {GROUPS[group]}', width)}\n{columns(rows, width, left=left)}"
        for group, rows in groups.items()
    )
    more = "`kymograph VERB --help` lists a verb's options; --debug shows the tracebacks of errors and of failed runs."
    return f"""usage: kymograph VERB ...

{folded("A laboratory for the dynamics of neural-network training.", width)}

{listed}

{folded(more, width)}
"""


def _end(error: BaseException, words: Sequence[str], debug: bool) -> int:
    """Prints how a command ended, with ``debug`` the traceback before it; returns the exit code."""
    if isinstance(error, OSError):
        _give_up_output()
    sentence, code = exit_status(error, words)
    if sys.stderr is None:
        return code
    if debug and not isinstance(error, KeyboardInterrupt | BrokenPipeError):
        traceback.print_exception(error)
    if sentence:
        with contextlib.suppress(OSError):  # e.g. a terminal that is gone
            print(f"kymograph: {sentence}", file=sys.stderr)
    return code


def _give_up_output() -> None:
    """Discards pending output if it cannot be written, as the output itself may have caused the error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_of_a_thread(properties: threading.ExceptHookArgs) -> None:
    """Prints in one sentence what ended a thread; the main thread goes on."""
    if properties.exc_value is not None:
        _end(properties.exc_value, sys.argv[1:], debug=False)


def exit_status(error: BaseException, words: Sequence[str] = ()) -> tuple[str, int]:
    """Returns the sentence, empty if there is nothing to say, and the exit code for what a command raised.

    ``words`` is the command line, which is saved with the traceback of a bug.
    """
    if isinstance(error, KymographError):
        return str(error), MISUSED if isinstance(error, UsageError) else FAILED
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; run the same command again to resume", INTERRUPTED
    if isinstance(error, BrokenPipeError):  # e.g. `kymograph studies | head`: the reader has seen enough
        return "", FAILED
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        return "there is not enough memory for this; free some, or ask for less at a time", FAILED
    if isinstance(error, RecursionError):
        where = _saved(error, words)
        return f"something is nested too deeply to be processed; simplify it (traceback: {where})", FAILED
    if isinstance(error, OSError) and error.strerror:
        names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        remedy = _REMEDIES.get(error.errno or 0, "check the path")
        return f"cannot read or write {' and '.join(names) or 'the output'}: {error.strerror}; {remedy}", FAILED
    kind = type(error).__name__
    return f"sorry, this is a bug in kymograph ({kind}); please report it with {_saved(error, words)}", FAULT


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
