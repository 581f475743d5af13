"""Choosing the value of a tuned setting from its tuning runs, logging the choice, and checking a logged choice.

The best value is the one with the lowest (or highest) mean over all tuning seeds; of equal ones, the one declared
first. A value with a failed or diverged run cannot be chosen: a mean over the seeds that survived would reward it for
losing the others. No choice is possible until every run has ended.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph._claims.claim import Measure
from kymograph._claims.design import Terms
from kymograph._claims.measures import measure
from kymograph._errors import KymographError
from kymograph._io.writing import plain
from kymograph._runs.declaration import ArmSettings, Declaration, differing
from kymograph._runs.divergence import declared_diverged
from kymograph._runs.history import History, current_code
from kymograph._runs.locating import has_ended
from kymograph._runs.log import Entry, Log
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.thin_run import stored_run
from kymograph._runs.tuned import LOWEST, Tuned, tuning_study

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
    means = tuple(
        math.fsum(at_value) / len(at_value) if all(map(math.isfinite, at_value)) else None for at_value in scores
    )
    sign = 1 if tuned.best == LOWEST else -1
    candidates = [(sign * mean, index) for index, mean in enumerate(means) if mean is not None]
    value = plain(tuned.grid[min(candidates)[1]]) if candidates else None
    return Choice(arm, tuned, value, means, tuple(sorted(spec.id for spec in specs)))


def missing_runs(tuned: Tuned, specs: Sequence[RunSpec], ended: Mapping[str, StoredRun]) -> int:
    """Returns how many of an arm's tuning runs were not planned or have not ended."""
    present = {(value_index(tuned, spec.settings), spec.seed) for spec in specs if spec.id in ended}
    wanted = {(index, seed) for index in range(len(tuned.grid)) for seed in tuned.tuning_seeds}
    return len(wanted - present)


def _score(run: StoredRun, by: str) -> float:
    """Returns the number by which a run is compared; NaN if the run failed, says that it diverged, or lacks it.

    Whether a run diverged is not inferred from its series here: choices that were logged must stay what they are.
    """
    if not run.has_results or declared_diverged(run.summary):
        return math.nan
    return measure(run, Measure(by))


def log_choices(log: Log, study: str, choices: Sequence[Choice]) -> list[Choice]:
    """Logs the new choices; returns all of them with the hashes of their log entries."""

    def key(choice: Choice) -> tuple[str, tuple[str, ...], str]:
        return choice.arm, choice.runs, repr(choice.value)

    logged = {key(choice): choice for choice in logged_choices(log, study)}
    fresh = [choice for choice in choices if key(choice) not in logged]
    digest = ""
    if fresh:
        digest = log.append(CHOICE, {"study": study, "choices": [choice.to_json() for choice in fresh]}).hash
    return [logged.get(key(choice)) or replace(choice, digest=digest) for choice in choices]


def logged_choices(log: Log, study: str) -> list[Choice]:
    """Returns a study's choices in the log, earlier ones first; entries that cannot be read are skipped."""
    choices: list[Choice] = []
    for entry in log.of_kind(CHOICE):
        with contextlib.suppress(ValueError):  # reported as a problem of the log; the arm then has no choice
            choices += choices_of(entry) if entry.content.get("study") == study else ()
    return choices


def choices_of(entry: Entry) -> list[Choice]:
    """Returns the choices of a log entry; raises ValueError if they cannot be read."""
    study, choices = entry.content.get("study"), entry.content.get("choices")
    if not isinstance(study, str) or not isinstance(choices, list):
        raise ValueError("it lists no choices for a study")
    try:
        return [
            Choice(str(choice["arm"]), Tuned.from_json(choice["tuned"]), choice["value"], tuple(choice["means"]),
                   tuple(map(str, choice["runs"])), entry.hash)
            for choice in choices
        ]  # fmt: skip
    except (KeyError, TypeError):
        raise ValueError("a choice lacks its arm, its rule, its value, its means or its runs") from None


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
    logged = [choice for choice in records.choices if choice.arm == arm and choice.runs == ids]
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
    for earlier in logged:
        if earlier.value != choice.value or earlier.tuned.to_json() != tuned.to_json():
            said = f"{tuned.setting} {earlier.value} was chosen for {arm}"
            return wrong(f"{said}, and its tuning runs say {choice.value}", earlier.value)
    caveat = ""
    if not choice.usable:
        caveat = f"no {tuned.setting} could be chosen for {arm}: every value has a tuning run that failed or diverged"
    elif edge := tuned.edge(choice.value):
        caveat = f"the best {tuned.setting} of {arm}, {choice.value}, is the {edge} of its grid; extend the grid"
    return TunedArm(arm, tuned, choice.value, caveat, False, runs, logged[0].digest)


def _belongs(run: RunSpec, tuned: Tuned, expected: Mapping[str, Any]) -> bool:
    """Returns whether a tuning run is one of those that the rule requires."""
    index = value_index(tuned, run.settings)
    if index is None or run.seed not in tuned.tuning_seeds:
        return False
    return not expected or not differing(run.settings, {**expected, tuned.setting: run.settings[tuned.setting]})


def tuning_records(root: Path | None, history: History, declaration: Declaration) -> TuningRecords:
    """Reads the tuning runs of a study's current code in full, and the choices in the log."""
    name = tuning_study(declaration.name)
    specs = [run for run in history.planned.values() if run.study == name]
    if root is None or not specs:
        return TuningRecords()
    code = current_code(specs, {name: declaration})[name]
    planned = [spec for spec in specs if code.made(spec)]
    ended: dict[str, StoredRun] = {}
    damaged: dict[str, str] = {}
    for spec in planned:
        path = root / spec.directory
        if has_ended(str(path)):
            try:
                run = stored_run(path)
                run.check()
                ended[spec.id] = run
            except KymographError as error:
                damaged[spec.id] = str(error).replace(str(path), path.name)
    return TuningRecords(planned, ended, damaged, logged_choices(history.log, declaration.name))


def tuned_arms(
    terms: Terms | None,
    declaration: Declaration,
    finished: Sequence[StoredRun],
    root: Path | None,
    history: History,
) -> dict[str, TunedArm]:
    """Returns the choice for every arm that was tuned or evaluated, and whether it holds.

    Args:
        terms: the registered terms, whose rules are binding; None: the study's own rules count.
        declaration: what the study declares.
        finished: the study's own runs that finished.
        root: the output directory; None: there is none.
        history: what the log says.
    """
    rules = declaration.tuned if terms is None else terms.rules_given(declaration.tuned)
    if not rules:
        return {}
    records = tuning_records(root, history, declaration)
    settings = ArmSettings() if terms is None else terms.settings_given(declaration.defaults)
    by_arm: dict[str, list[StoredRun]] = {}
    for run in finished:
        by_arm.setdefault(run.arm, []).append(run)
    touched = {run.arm for run in records.planned} | set(by_arm)
    arms = {}
    for arm, rule in rules.items():
        if arm in touched:
            evaluated = by_arm.get(arm, ())
            expected = settings.of(arm) or (dict(evaluated[0].config) if evaluated else {})
            arms[arm] = _after_choice(tuned_arm(arm, rule, expected, records), evaluated, history)
    return arms


def with_chosen(settings: ArmSettings, tuned: Mapping[str, TunedArm]) -> ArmSettings:
    """Returns every arm's registered settings with the values that were chosen by the registered rules."""
    chosen = {name: {arm.tuned.setting: arm.value} for name, arm in tuned.items() if arm.value is not None}
    if not settings or not chosen:
        return settings
    return ArmSettings.pack({arm: settings.of(arm) | chosen.get(arm, {}) for arm in settings.arms})


def _after_choice(tuned: TunedArm, runs: Sequence[StoredRun], history: History) -> TunedArm:
    """Returns the arm, with a problem if some of its runs at the chosen value started before it was chosen."""
    setting = tuned.tuned.setting
    if tuned.problem or not tuned.digest:
        return tuned
    heads = [run.log_heads or () for run in runs if run.config.get(setting) == tuned.value]
    before = {start for start in set(heads) if not history.log.precedes(tuned.digest, start)}
    early = sum(start in before for start in heads)
    if not early:
        return tuned
    problem = f"{early} runs of {tuned.arm} started before its {setting} was chosen"
    return replace(tuned, problem=problem, fails_verification=True)
