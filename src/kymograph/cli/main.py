"""The command line: finds the verb, runs it, and turns whatever ends it into a sentence and an exit code.

A verb is one module in `kymograph.cli.verbs`, or an entry point of that group in a user's package. The usage text is
put together from what the modules declare, so that printing it imports none of them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Sequence

from kymograph.cli.guarded_output import guarded
from kymograph.cli.help_text import columns
from kymograph.errors import UsageError, did_you_mean
from kymograph.registry import Registry
from kymograph.wording import folded, line_width

VERBS = Registry("kymograph.cli.verbs", "main", noun="verb")


@guarded
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb; exits with 0 only if everything asked for was done (`kymograph.cli.exit_status` has the codes)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    _ignore_matplotlibrc()
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


def _end(error: BaseException, words: Sequence[str], debug: bool) -> int:
    """Prints how a command ended, with ``debug`` the traceback before it; returns the exit code."""
    from kymograph.cli.exit_status import exit_status

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


def _end_of_a_thread(facts: threading.ExceptHookArgs) -> None:
    """Prints in one sentence what ended a thread; the main thread goes on."""
    if facts.exc_value is not None:
        _end(facts.exc_value, sys.argv[1:], debug=False)


def run_verb(words: list[str], debug: bool = False) -> int:
    """Runs the verb that the first word names, with the other words; returns its exit code.

    A verb that trains (``"debug": True`` in its ``PART``) also gets ``--debug``, and prints the tracebacks of its runs.
    """
    if not words or words[0] in ("-h", "--help"):
        print(usage(), end="")
        return 0 if words else 2
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"kymograph {version('kymograph')}")
        return 0
    if words[0] not in VERBS.names():
        raise UsageError(f"there is no verb {words[0]!r}{did_you_mean(words[0], VERBS.names())}")
    takes_debug = debug and VERBS.part(words[0]).facts.get("debug") is True
    return VERBS.load(words[0])([*words[1:], *(["--debug"] if takes_debug else [])])


def usage() -> str:
    """Returns the usage text: a line for every verb, in declared order."""
    lines = {str(part.facts.get("usage", part.name)): part.about for part in VERBS.parts().values()}
    width = line_width()
    more = "`kymograph VERB --help` lists a verb's options; --debug shows the tracebacks of errors and of failed runs."
    return f"""usage: kymograph VERB ...

{folded("A laboratory for the dynamics of neural-network training.", width)}

{columns(list(lines.items()), width)}

{folded(more, width)}
"""
