"""The one exception a user may see: a sentence that says what is wrong and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KymographError(Exception):
    """An error that the user can fix; its text is one sentence, shown without a traceback.

    >>> try:
    ...     ky.export(ky.Store.open("runs"), "cvs", "runs.csv")
    ... except ky.KymographError as error:
    ...     print(error)
    cannot export to 'cvs'; did you mean 'csv'?
    """


class UsageError(KymographError):
    """A request that cannot be understood: no such verb, option, setting or arm, or an invalid value of one."""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Returns ``"; did you mean 'x'?"`` for the option nearest to ``word``, or the options if none is near."""
    names = sorted(options)
    if near := difflib.get_close_matches(word, names, n=1, cutoff=0.6):
        return f"; did you mean {near[0]!r}?"
    return "; known: " + ", ".join(names) if names else ""


def first_line(error: BaseException, otherwise: str = "") -> str:
    """Returns the first line of an error's message; if it has none, ``otherwise`` or the name of its type."""
    return (str(error).strip().splitlines() or [otherwise or type(error).__name__])[0]
