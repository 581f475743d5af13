"""Problems of a log: entries that were edited or truncated, and entries whose content cannot be read.

An entry added by hand can have a valid hash. Readers skip an entry whose content does not have the types of its kind;
it is reported here, so that no entry is skipped silently.
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
    """Returns one sentence per problem of a log."""
    found = list(history.problems)
    for entry in history.entries.values():
        check = _CHECKS.get(entry.kind)
        if check is None:
            found.append(f"the log entry {entry.hash[:SHORT]} is of a kind that this version does not know")
            continue
        try:
            check(entry)
        except ValueError as error:
            found.append(f"the log entry {entry.hash[:SHORT]} is not a readable {entry.kind}: {error}")
    return found
