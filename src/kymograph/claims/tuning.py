"""Choosing the value of a tuned setting from its tuning runs, and logging the choice.

The best value is the one with the lowest (or highest) mean over all tuning seeds; of equal ones, the one declared
first. A value with a failed or diverged run cannot be chosen: a mean over the seeds that survived would reward it for
losing the others. No choice is possible until every run has ended.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims.claim import Measure
from kymograph.claims.estimands import measure
from kymograph.errors import KymographError
from kymograph.runs import log
from kymograph.runs.files import plain
from kymograph.runs.log import Entry, Log
from kymograph.runs.spec import RunSpec
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import LOWEST, Tuned

CHOICE = "choice"


@dataclass(frozen=True)
class Choice:
    """The value chosen for one arm, and the means it was chosen by."""

    arm: str
    tuned: Tuned
    value: Any
    """None: every value had a failed or diverged run."""
    means: tuple[float | None, ...]
    """The mean at every value of the grid; None at one that cannot be chosen."""
    runs: tuple[str, ...]
    """The ids of the tuning runs, sorted."""
    digest: str = ""
    """The hash of the log entry; empty until the choice is logged."""

    @property
    def usable(self) -> bool:
        """Whether there is a value that can be chosen."""
        return any(mean is not None for mean in self.means)

    def to_json(self) -> dict[str, Any]:
        """Returns the choice as stored in the log."""
        return {"arm": self.arm, "tuned": self.tuned.to_json(), "value": self.value, "means": list(self.means),
                "usable": self.usable, "runs": list(self.runs)}  # fmt: skip


def check_tuning_seeds(study: str, rules: Mapping[str, Tuned], seeds: Iterable[int]) -> None:
    """Raises if an arm would be tuned on a seed on which it is evaluated."""
    evaluated = set(seeds)
    for arm, rule in rules.items():
        both = [seed for seed in rule.tuning_seeds if seed in evaluated]
        if both:
            raise KymographError(
                f"{study} tunes the arm {arm!r} on seed {both[0]}, on which it is also evaluated; use different seeds"
            )


def value_index(tuned: Tuned, settings: Mapping[str, Any]) -> int | None:
    """Returns the index of a run's value in the grid; None if it is not there."""
    here = settings.get(tuned.setting)
    for index, value in enumerate(map(plain, tuned.grid)):
        if value == here and (tuned.numeric or type(value) is type(here)):  # True is not 1
            return index
    return None


def choose(arm: str, tuned: Tuned, specs: Sequence[RunSpec], ended: Mapping[str, StoredRun]) -> Choice:
    """Returns the best value for an arm, given its tuning runs.

    Args:
        arm: the arm.
        tuned: the rule.
        specs: the arm's tuning runs, one for each value and tuning seed.
        ended: the runs that ended, by id; raises if one of ``specs`` is not among them.
    """
    missing = missing_runs(tuned, specs, ended)
    if missing:
        total = len(tuned.grid) * len(tuned.tuning_seeds)
        raise KymographError(
            f"{missing} of {total} tuning runs of {arm} are missing, so its {tuned.setting} cannot be chosen"
        )
    scores: list[list[float]] = [[] for _ in tuned.grid]
    for spec in specs:
        index = value_index(tuned, spec.settings)
        if index is not None:
            scores[index].append(_score(ended[spec.id], tuned.by))
    means = tuple(math.fsum(one) / len(one) if all(map(math.isfinite, one)) else None for one in scores)
    known = [(mean, index) for index, mean in enumerate(means) if mean is not None]
    sign = 1 if tuned.best == LOWEST else -1
    best = min(known, key=lambda pair: (sign * pair[0], pair[1]), default=None)
    value = None if best is None else plain(tuned.grid[best[1]])
    return Choice(arm, tuned, value, means, tuple(sorted(spec.id for spec in specs)))


def missing_runs(tuned: Tuned, specs: Sequence[RunSpec], ended: Mapping[str, StoredRun]) -> int:
    """Returns how many of an arm's tuning runs were not planned or have not ended."""
    present = {(value_index(tuned, spec.settings), spec.seed) for spec in specs if spec.id in ended}
    wanted = {(index, seed) for index in range(len(tuned.grid)) for seed in tuned.tuning_seeds}
    return len(wanted - present)


def _score(run: StoredRun, by: str) -> float:
    """Returns the number by which a run is compared; NaN if the run failed, diverged or lacks it."""
    if run.status != "finished" or run.summary.get("finite") is False:
        return math.nan
    return measure(run, Measure(by))


def log_choices(root: Path, study: str, choices: Sequence[Choice]) -> list[Choice]:
    """Logs the new choices; returns all of them with the hashes of their log entries."""
    known = {(one.arm, one.runs, repr(one.value)): one for one in logged_choices(Log.read(root), study)}
    fresh = [one for one in choices if (one.arm, one.runs, repr(one.value)) not in known]
    digest = ""
    if fresh:
        digest = log.append(root, CHOICE, {"study": study, "choices": [one.to_json() for one in fresh]}).hash
    return [known.get((one.arm, one.runs, repr(one.value))) or replace(one, digest=digest) for one in choices]


def logged_choices(history: Log, study: str) -> list[Choice]:
    """Returns a study's choices in the log, earlier ones first; entries that cannot be read are skipped."""
    found: list[Choice] = []
    for entry in history.of_kind(CHOICE):
        with contextlib.suppress(ValueError):  # reported as a problem of the log; the arm then has no choice
            found += choices_of(entry) if entry.content.get("study") == study else ()
    return found


def choices_of(entry: Entry) -> list[Choice]:
    """Returns the choices of a log entry; raises ValueError if they cannot be read."""
    study, choices = entry.content.get("study"), entry.content.get("choices")
    if not isinstance(study, str) or not isinstance(choices, list):
        raise ValueError("it lists no choices for a study")
    try:
        return [
            Choice(str(one["arm"]), Tuned.from_json(one["tuned"]), one["value"], tuple(one["means"]),
                   tuple(map(str, one["runs"])), entry.hash)
            for one in choices
        ]  # fmt: skip
    except (KeyError, TypeError):
        raise ValueError("a choice lacks its arm, its rule, its value, its means or its runs") from None
