"""What is known about a tuned arm: the chosen value, and whether the stored tuning runs confirm the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kymograph.claims.tuning import Choice, choose, missing_runs, value_index
from kymograph.claims.world import differing
from kymograph.errors import KymographError
from kymograph.runs.spec import RunSpec
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import Tuned


@dataclass(frozen=True)
class TunedArm:
    """A tuned arm, the value at which it was evaluated, and why claims about it cannot be decided, if so."""

    arm: str
    tuned: Tuned
    value: Any = None
    """The chosen value; None: none was or could be chosen."""
    problem: str = ""
    """Why claims about the arm are INVALID; empty if they are not."""
    fails_verification: bool = False
    """Whether runs are missing or contradict the log; False if the tuning itself found no usable value."""
    runs: tuple[StoredRun, ...] = ()
    """The tuning runs."""
    digest: str = ""
    """The hash of the log entry with the choice."""


@dataclass(frozen=True)
class TuningRecords:
    """The records of a study's tuning in a directory, for its current code."""

    planned: Sequence[RunSpec] = ()
    ended: Mapping[str, StoredRun] = field(default_factory=dict)
    """The tuning runs that ended and can be read, by id."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Why the others cannot be read, by id."""
    choices: Sequence[Choice] = ()
    """The choices in the log, earlier ones first."""


def tuned_arm(arm: str, tuned: Tuned, expected: Mapping[str, Any], records: TuningRecords) -> TunedArm:
    """Returns the value chosen for an arm, checked against its tuning runs.

    Args:
        arm: the arm.
        tuned: the rule that was registered, or that the study declares.
        expected: the settings that the arm's runs must have besides the chosen one; empty: any.
        records: the study's tuning runs, and the choices in the log.
    """
    specs = [run for run in records.planned if run.arm == arm and _belongs(run, tuned, expected)]
    runs = tuple(records.ended[spec.id] for spec in specs if spec.id in records.ended)

    def wrong(problem: str, value: Any = None) -> TunedArm:
        return TunedArm(arm, tuned, value, problem, True, runs)

    ids = tuple(sorted(spec.id for spec in specs))
    logged = [one for one in records.choices if one.arm == arm and one.runs == ids]
    value = logged[-1].value if logged else None
    damaged = [records.damaged[spec.id] for spec in specs if spec.id in records.damaged]
    if damaged:
        return wrong(f"a tuning run of {arm} does not count: {damaged[0]}", value)
    missing = missing_runs(tuned, specs, records.ended)
    if missing:
        total = len(tuned.grid) * len(tuned.tuning_seeds)
        return wrong(f"{missing} of {total} tuning runs of {arm} are missing", value)
    try:
        choice = choose(arm, tuned, specs, records.ended)
    except KymographError as error:
        return wrong(f"{arm} cannot be tuned: {error}", value)
    if not logged:
        return wrong(f"the log does not say which {tuned.setting} was chosen for {arm}")
    other = [one for one in logged if one.value != choice.value or one.tuned.to_json() != tuned.to_json()]
    if other:
        said = f"{tuned.setting} {other[0].value} was chosen for {arm}"
        return wrong(f"{said}, and its tuning runs say {choice.value}", other[0].value)
    return TunedArm(arm, tuned, choice.value, _caveat(choice), False, runs, logged[0].digest)


def _belongs(run: RunSpec, tuned: Tuned, expected: Mapping[str, Any]) -> bool:
    """Returns whether a tuning run is one of those that the rule requires."""
    index = value_index(tuned, run.settings)
    if index is None or run.seed not in tuned.tuning_seeds:
        return False
    return not expected or not differing(run.settings, {**expected, tuned.setting: run.settings[tuned.setting]})


def _caveat(choice: Choice) -> str:
    """Returns why a choice cannot be used, as text; empty if it can."""
    arm, tuned = choice.arm, choice.tuned
    if not choice.usable:
        return f"no {tuned.setting} could be chosen for {arm}: every value has a tuning run that failed or diverged"
    if edge := tuned.edge(choice.value):
        return f"the best {tuned.setting} of {arm}, {choice.value}, is the {edge} of its grid; extend the grid"
    return ""
