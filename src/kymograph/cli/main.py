"""The command line: finds the verb, runs it, and turns whatever ends it into a sentence and an exit code.

A verb is one module in `kymograph.cli.verbs`, or an entry point of that group in a user's package. The usage text is
put together from what the modules declare, so that printing it imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kymograph.cli.guarded_output import guarded
from kymograph.errors import KymographError
from kymograph.registry import Registry

VERBS = Registry("kymograph.cli.verbs", "main", noun="verb")


@guarded
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb; exits with 0 only if everything asked for was done."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        try:
            code = run_verb([word for word in words if word != "--debug"], debug)
        finally:
            sys.stdout.flush()  # so that a closed pipe is noticed here, not while the interpreter shuts down
    except KymographError as error:
        if debug:
            raise
        print(f"kymograph: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("kymograph: interrupted; run the same command again to resume", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # e.g. `kymograph list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def run_verb(words: list[str], debug: bool = False) -> int:
    """Runs the verb that the first word names, with the other words; returns its exit code.

    A verb that trains (``"debug": True`` in its ``PART``) is told of ``debug``, and prints the tracebacks of its runs.
    """
    if not words or words[0] in ("-h", "--help"):
        print(usage(), end="")
        return 0 if words else 2
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"kymograph {version('kymograph')}")
        return 0
    takes_debug = debug and VERBS.part(words[0]).facts.get("debug") is True
    return VERBS.load(words[0])([*words[1:], *(["--debug"] if takes_debug else [])])


def usage() -> str:
    """Returns the usage text: a line for every verb, in declared order."""
    lines = {str(part.facts.get("usage", part.name)): part.about for part in VERBS.parts().values()}
    width = max(map(len, lines))
    verbs = "\n".join(f"  {call:<{width}}  {about}".rstrip() for call, about in lines.items())
    return f"""usage: kymograph VERB ...

A laboratory for the dynamics of neural-network training.

{verbs}

`kymograph VERB --help` lists the options of a verb; --debug shows the traceback of an error, and of failed runs.
"""
