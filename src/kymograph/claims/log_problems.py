"""What is wrong with a log: entries that were edited or cut off, and entries that say nothing that is known here.

Whoever adds an entry can also give it a hash that fits. Its readers leave out one whose content is not of the types
that its kind has; here it is named, so that it is never left out without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kymograph.claims.logged import REGISTRATION, check_registration
from kymograph.claims.tuning import CHOICE, choices_of
from kymograph.runs.history import ABANDONED, REPLACED, SWEEP, check_content
from kymograph.runs.log import SHORT, Entry, Log

_CHECKS: Mapping[str, Callable[[Entry], object]] = {
    SWEEP: check_content,
    ABANDONED: check_content,
    REPLACED: check_content,
    REGISTRATION: check_registration,
    CHOICE: choices_of,
}


def log_problems(history: Log) -> list[str]:
    """Returns a sentence for everything that is wrong with a log."""
    found = list(history.problems)
    for entry in history.entries.values():
        check = _CHECKS.get(entry.kind)
        if check is None:
            found.append(f"the log entry {entry.hash[:SHORT]} is of a kind that this version does not know")
            continue
        try:
            check(entry)
        except ValueError as error:
            found.append(f"the log entry {entry.hash[:SHORT]} is no {entry.kind} that can be read: {error}")
    return found
