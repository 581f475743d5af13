"""Which runs decide a claim: those of its study that count, and of these one per arm and seed.

A study's runs count if they are of its current code, at the registered seeds, and were not abandoned. A claim compares
those with the registered settings. Paired runs may differ in what their arms declare, and in nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kymograph._claims.claim import Claim, Side, measure_name
from kymograph._claims.design import Terms
from kymograph._claims.measures import Run
from kymograph._claims.registration import Registration, binding, conflicts, seen_before_reinstated
from kymograph._claims.tuning import TunedArm, tuned_arms, with_chosen
from kymograph._claims.verdict import Checked, Point
from kymograph._errors import KymographError, did_you_mean
from kymograph._io.writing import plain
from kymograph._runs.declaration import ArmSettings, Declaration, differing
from kymograph._runs.directory import Damaged, Directory
from kymograph._runs.history import code_words, current_code, declaration_digest
from kymograph._runs.spec import RunSpec, canonical_json, slug
from kymograph._runs.stored_run import StoredRun
from kymograph._wording import counted

REFERENCE, OTHER_DATA, OTHER_SETTINGS = "script", "transfer", "altered"
"""The labels of a claim about a study's reference settings: judged at these, on other data, or at other settings.

The first is part of the hashes of registered claims.
"""
DATA = "data"
"""The setting that names a study's data."""
Invalid = StoredRun | Damaged
"""A run that ended and does not count: it failed, or its record is damaged."""


class CannotDecide(Exception):
    """The reason why a claim is INVALID."""

    def __init__(self, reason: str, points: Sequence[Point] = (), checks: Sequence[Checked] = ()) -> None:
        super().__init__(reason)
        self.reason, self.points, self.checks = reason, tuple(points), tuple(checks)


@dataclass(frozen=True)
class Selected:
    """The runs of one side of a claim, and how they compare with the registered settings."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec]
    invalid: Sequence[Invalid]
    abandoned: Sequence[RunSpec]
    departure: str = ""
    """How the runs' settings differ from the registered ones, as text; empty if they do not."""
    unused: int = 0
    """How many further runs of the arm have settings that were not registered."""
    unused_for: tuple[str, ...] = ()
    """The names of those settings."""


@dataclass(frozen=True)
class LeftOut:
    """What does not count among a study's runs, and why."""

    abandoned: Sequence[RunSpec] = ()
    """Planned runs that were abandoned."""
    further_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Seeds, by arm, that have runs but were not registered."""
    superseded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By arm, the code of every run that was made by earlier code of the study."""
    not_chosen: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Planned seeds, by arm, that are not in the store that is judged."""
    narrowed: str = ""
    """How the user narrowed the runs by their settings, as text; empty: not at all."""


@dataclass(frozen=True)
class StudyEvidence:
    """One study's runs that count, those that are missing or invalid, and what was left out."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec] = ()
    invalid: Sequence[Invalid] = ()
    declaration: Declaration = field(default_factory=lambda: Declaration(""))
    """What the study declares: its arms, its names for things, its default settings."""
    terms: Terms | None = None
    """The registered seeds and looks, over which claims are decided; None: none were registered."""
    tuned: Mapping[str, TunedArm] = field(default_factory=dict)
    """The tuned arms and their chosen values, by name."""
    left_out: LeftOut = LeftOut()
    """What does not count, and why."""
    reinstated: Mapping[str, str] = field(default_factory=dict)
    """Runs that were abandoned and taken back before they had results, by id, with the reasons in words."""
    changed_records: Sequence[str] = ()
    """What was deleted or edited since it was logged; if there is anything, nothing can be decided."""
    code_changed: str = ""
    """How the study's code differs from the code that made these runs, if the user named code that does."""
    unjudged_claims: int = 0
    """How many registered claims of the study are not judged here; they still share the level."""
    never_run_claims: int = 0
    """How many of these compare arms that were never run."""

    @functools.cached_property
    def registered(self) -> ArmSettings:
        """The settings that every arm's runs were registered with, tuned ones included; empty: none were."""
        if self.terms is None:
            return ArmSettings()
        return with_chosen(self.terms.settings_given(self.declaration.defaults), self.tuned)

    def selected(self, side: Side) -> Selected:
        """Returns the runs of one side of a claim: those with the registered settings, if any was ever planned.

        If the user narrowed the runs by their settings: the remaining ones, whatever was registered.
        """
        key = (side.arm, canonical_json(plain(side.where)))
        if key not in self._selections:
            self._selections[key] = self._select(side)
        return self._selections[key]

    @functools.cached_property
    def _selections(self) -> dict[tuple[str, str], Selected]:
        return {}  # a claim selects the same runs half a dozen times, and many claims share their arms

    def _select(self, side: Side) -> Selected:
        runs, planned, invalid = ([run for run in group if fits(run, side)] for group in self.of_arm(side.arm))
        abandoned = [run for run in self.left_out.abandoned if fits(run, side)]
        expected = self.registered.of(side.arm)
        if not expected:
            return Selected(runs, planned, invalid, abandoned)
        expected |= side.where
        conforming: dict[str, bool] = {}

        def conforms(run: Run | RunSpec | Invalid) -> bool:
            text = _settings_text(run)
            if text is None:
                return run.config is None or not differing(_settings(run), expected)
            if text not in conforming:
                conforming[text] = not differing(_settings(run), expected)
            return conforming[text]

        kept = [[run for run in group if conforms(run)] for group in (runs, planned, invalid)]
        if self.left_out.narrowed or not any(kept):
            odd = next((run for run in (*runs, *planned, *invalid) if not conforms(run)), None)
            departure = "" if odd is None else _departure(_settings(odd), expected)
            return Selected(runs, planned, invalid, abandoned, departure)
        others = [run for run in runs if not conforms(run)]
        names = dict.fromkeys(name for run in _distinct(others) for name in differing(run.config, expected))
        return Selected(kept[0], kept[1], kept[2], abandoned, unused=len(others), unused_for=tuple(names))

    def of_arm(self, arm: str) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Returns an arm's finished, planned and invalid runs."""
        finished, planned, invalid = (group.get(arm, ()) for group in self._by_arm)
        return finished, planned, invalid

    @functools.cached_property
    def _by_arm(self) -> list[dict[str, list[Any]]]:
        groups: tuple[Sequence[Any], ...] = (self.runs, self.planned, self.invalid)
        by_arm: list[dict[str, list[Any]]] = [{} for _ in groups]
        for of_arm, group in zip(by_arm, groups, strict=True):
            for run in group:
                of_arm.setdefault(run.arm, []).append(run)
        return by_arm


@dataclass(frozen=True)
class Narrowing:
    """Which runs the user asked for: those with these settings and these ids; by default all."""

    where: Mapping[str, Any] = field(default_factory=dict)
    only: Collection[str] | None = None
    names: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The settings of each study: one that lacks a setting is not filtered by it."""

    @staticmethod
    def of(directory: Directory, where: Mapping[str, Any], only: Collection[str] | None) -> Narrowing:
        """Returns the narrowing of a directory's runs; raises if none of them has a setting."""
        names: dict[str, set[str]] = {}
        if where:
            for spec in (*(run.spec for run in directory.store.finished), *directory.planned):
                names.setdefault(spec.study, set()).update(spec.settings)
        every = set().union(*names.values())
        for name in where:
            if name not in every:
                raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, every)}")
        return Narrowing(where, only, names)

    def __bool__(self) -> bool:
        return bool(self.where) or self.only is not None

    def keeps(self, run: StoredRun | Damaged | RunSpec) -> bool:
        """Returns whether a run was asked for; one whose settings are lost counts as if it had them."""
        if self.only is not None and run.id not in self.only:
            return False
        config, names = run.config, self.names.get(run.study, ())
        return config is None or all(config.get(name) == value for name, value in self.where.items() if name in names)


def study_evidence(
    directory: Directory,
    declaration: Declaration,
    registered: Sequence[Registration],
    narrowing: Narrowing,
    log_problems: Sequence[str],
) -> StudyEvidence:
    """Returns which of a study's runs count: not the abandoned, nor those of other seeds or earlier code."""
    name, history = declaration.name, directory.history

    def counts(run: StoredRun | Damaged | RunSpec) -> bool:
        return run.study == name and run.id not in history.abandoned

    finished = [run for run in directory.store.finished if counts(run) and narrowing.keeps(run)]
    invalid = [run for run in (*directory.store.failed, *directory.damaged) if counts(run) and narrowing.keeps(run)]
    every_planned = {run.id: run for run in directory.planned if narrowing.keeps(run)}
    if not narrowing:  # what was planned is in the log, even if the directory of the runs was deleted
        every_planned |= history.planned
    planned = [run for run in every_planned.values() if counts(run)]
    first = binding(registered, name, directory.log)
    terms = None if first is None else first.terms
    further_seeds: dict[str, list[int]] = {}
    if terms is not None:
        seeds = frozenset(terms.seeds)
        for run in finished:
            if run.seed not in seeds:
                further_seeds.setdefault(run.arm, []).append(run.seed)
        finished = [run for run in finished if run.seed in seeds]
        planned = [run for run in planned if run.seed in seeds]
        invalid = [run for run in invalid if run.seed in seeds]
    code = current_code([*(run.spec for run in finished), *planned], directory.declarations).get(name)
    superseded: dict[str, list[str]] = {}
    if code is not None:
        # Runs that were deleted count as well: the log has them.
        for spec in ({run.id: run.spec for run in finished} | history.planned).values():
            if counts(spec) and not code.made(spec):
                superseded.setdefault(spec.arm, []).append(" ".join(code_words(spec)))
        finished = [run for run in finished if code.made(run.spec)]
        planned = [run for run in planned if code.made(run)]
        invalid = [run for run in invalid if isinstance(run, Damaged) or code.made(run.spec)]
    not_chosen: dict[str, list[int]] = {}
    if not directory.whole:
        not_chosen, planned = _not_chosen(finished, planned), []
    seen = {run.id for run in seen_before_reinstated(finished, history)}
    specs = [*(run.spec for run in finished), *planned] if narrowing.where else []
    varied = {setting for spec in specs for setting in spec.settings}
    narrowed = [f"{setting}={value}" for setting, value in narrowing.where.items() if setting in varied]
    return StudyEvidence(
        finished,
        planned,
        invalid,
        declaration,
        terms,
        tuned_arms(terms, declaration, finished, directory.root, history),
        LeftOut(
            [run for run in history.planned.values() if run.study == name and run.id in history.abandoned],
            further_seeds,
            superseded,
            not_chosen,
            f"--where {' '.join(narrowed)}" if narrowed else "",
        ),
        {run: str(why) for run, why in history.reinstated.items() if run not in seen},
        [*log_problems, *_changed_records(directory, name, registered, narrowing)],
    )


def _not_chosen(finished: Sequence[StoredRun], planned: Sequence[RunSpec]) -> dict[str, list[int]]:
    """Returns the planned seeds, by arm, that lack a run although others of the same settings are there."""
    present = {(run.arm, run.spec.settings_text, run.seed) for run in finished}
    configurations = {(arm, settings) for arm, settings, _ in present}
    seeds: dict[str, list[int]] = {}
    for spec in planned:
        configuration = (spec.arm, spec.settings_text)
        if configuration in configurations and (*configuration, spec.seed) not in present:
            seeds.setdefault(spec.arm, []).append(spec.seed)
    return seeds


def _changed_records(
    directory: Directory, study: str, registered: Sequence[Registration], narrowing: Narrowing
) -> list[str]:
    """Returns what was deleted or edited since it was logged, besides entries of the log."""
    problems = conflicts(registered, study, directory.log)
    gone = directory.without_entries(run for run in directory.store.finished if narrowing.keeps(run))
    if gone:
        problems.append(f"the log that {len(gone)} runs refer to is missing or was cut off")
    problems += [reason for reason in directory.unreadable if reason.startswith(f"cannot read {slug(study)}:")]
    declared = directory.history.declarations(study)
    if declared and declaration_digest(directory.root / slug(study)) not in declared:
        problems.append(f"the declaration of {study} was changed since it was logged")
    return problems


def fits(run: Run | RunSpec | Invalid, side: Side) -> bool:
    """Returns whether a run has a side's arm and settings; one whose settings are lost counts as if it had."""
    if run.arm != side.arm:
        return False
    return run.config is None or all(_settings(run).get(name) == value for name, value in side.where.items())


def _distinct(runs: Iterable[Run]) -> list[Run]:
    """Returns the first run of each combination of arm and settings, whatever its seed."""
    first: dict[Any, Run] = {}
    for run in runs:
        text = _settings_text(run)
        first.setdefault((run.arm, id(run) if text is None else text), run)
    return list(first.values())


def _settings_text(run: Any) -> str | None:
    """Returns a run's settings as text, the same for equal settings; None if it was not computed."""
    return getattr(getattr(run, "spec", run), "settings_text", None)


def _settings(run: Run | RunSpec | Invalid) -> Mapping[str, Any]:
    return run.settings if isinstance(run, RunSpec) else run.config or {}


def _departure(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Returns how settings differ from the expected ones, as text."""
    names = differing(settings, expected)
    return ", ".join(f"{name} {settings.get(name)} instead of {expected.get(name, 'its default')}" for name in names)


def has_planned_runs(claim: Claim, evidence: StudyEvidence) -> bool:
    """Returns whether runs were ever planned for everything that the claim compares."""
    # A tuned arm for which no value could be chosen has no runs, but was planned all the same.
    without_value = (arm for arm, tuned in evidence.tuned.items() if tuned.problem)
    left_out = evidence.left_out
    unused = {*left_out.superseded, *left_out.further_seeds, *without_value}
    return all(
        side.arm in unused
        or any(fits(run, side) for group in (*evidence.of_arm(side.arm), left_out.abandoned) for run in group)
        for side in claim.every_side
    )


def runs_by_seed(side: Side, evidence: StudyEvidence) -> dict[int, Run]:
    """Returns the arm's run at every seed; raises `CannotDecide` if one is missing, or if several match."""
    if evidence.changed_records:
        raise CannotDecide("; ".join(evidence.changed_records))
    tuned = evidence.tuned.get(side.arm)
    if tuned is not None and tuned.problem:
        raise CannotDecide(tuned.problem)
    selected, arm = evidence.selected(side), evidence.declaration.label(side.arm)
    if selected.invalid:
        first = min(selected.invalid, key=lambda run: run.seed)
        raise CannotDecide(f"the run of {arm} at seed {first.seed} does not count: {first.failure}")
    runs: dict[int, Run] = {}
    for run in selected.runs:
        if run.seed in runs:
            names = sorted(name for name in run.config if run.config[name] != runs[run.seed].config.get(name))
            how = f"they differ in {', '.join(names)}: choose with --where" if names else "keep one of them"
            raise CannotDecide(f"several runs of {arm} fit at seed {run.seed}; {how}")
        runs[run.seed] = run
    missing = sorted({run.seed for run in selected.planned if run.seed not in runs})
    if missing:
        raise CannotDecide(
            f"{len(missing)} of {len(missing) + len(runs)} planned runs of {arm} are missing "
            f"(seed {', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''})"
        )
    if not runs:
        older = evidence.left_out.superseded.get(side.arm)
        if older:
            raise CannotDecide(f"all {len(older)} runs of {arm} are superseded; run the study again")
        if selected.abandoned:
            raise CannotDecide(f"all {len(selected.abandoned)} planned runs of {arm} were abandoned")
        settings = "".join(f", {name} {value}" for name, value in side.where.items())
        measure = measure_name(side.measure, evidence.declaration)
        raise CannotDecide(f"no finished run of {arm}{settings} has {measure}")
    return runs


def paired_runs(claim: Claim, evidence: StudyEvidence) -> list[dict[int, Run]]:
    """Returns the runs of each side of a claim, by seed: the same seeds on all sides.

    Raises `CannotDecide` if a seed lacks a run, or if paired runs differ in a setting that no arm is about.
    """
    sides = [runs_by_seed(side, evidence) for side in claim.sides]
    unpaired = sorted({seed for side in sides[1:] for seed in set(sides[0]) ^ set(side)})
    if unpaired:
        raise CannotDecide(f"seed {unpaired[0]} has a run in {'one arm' if len(sides) == 2 else 'some arms'} only")
    declared = evidence.declaration.declared_fields
    if not declared:
        return sides
    about: set[str] = set()
    for side in claim.sides:
        about |= declared.get(side.arm, frozenset()) | set(side.where)
    for others in sides[1:]:
        for seed, left in sides[0].items():
            right = others[seed]
            for name in sorted(set(left.config) | set(right.config)):
                if name not in about and left.config.get(name) != right.config.get(name):
                    raise CannotDecide(f"the arms differ in {name} at seed {seed}, although no arm declares it")
    return sides


def named_settings(claim: Claim, evidence: StudyEvidence) -> dict[str, Any]:
    """Returns the settings that a reader must know: the qualifying ones, and all that are not the study's defaults.

    A setting with several values, because the claim compares them, lists all of them.
    """
    declaration, runs = evidence.declaration, [run for run, _ in _configurations(claim, evidence)]
    names = dict.fromkeys(declaration.qualifying)
    for run in runs:
        # A recorded loop has no defaults: name what its arms differ in.
        usual = declaration.defaults.of(run.arm) if declaration.defaults else runs[0].config
        names |= dict.fromkeys(differing(run.config, usual))
    settings: dict[str, Any] = {}
    for name in names:
        values = list({repr(run.config[name]): run.config[name] for run in runs if name in run.config}.values())
        if len(values) > 1 and all(isinstance(value, int | float) for value in values):
            values.sort()
        if values:
            settings[name] = values[0] if len(values) == 1 else " or ".join(map(str, values))
    return settings


def setup_label(claim: Claim, evidence: StudyEvidence) -> str:
    """Returns the claim's label; `REFERENCE` only if its runs have the study's reference data and settings.

    On other data it is `OTHER_DATA`, at other settings `OTHER_SETTINGS`, and in a study without a reference ``own``.
    """
    if claim.setup != REFERENCE:
        return claim.setup
    reference = evidence.declaration.reference_settings
    if not reference:
        return "own"
    names: set[str] = set()
    for run, side in _configurations(claim, evidence):
        names |= set(differing(run.config, {**reference.of(run.arm), **side.where}))
    names -= set(evidence.declaration.bookkeeping)
    return REFERENCE if not names else OTHER_DATA if DATA in names else OTHER_SETTINGS


def _configurations(claim: Claim, evidence: StudyEvidence) -> list[tuple[Run, Side]]:
    """Returns one run per configuration, which all seeds share, with the side that it is used for."""
    return [(run, side) for side in claim.every_side for run in _distinct(evidence.selected(side).runs)]


def remarks(claim: Claim, evidence: StudyEvidence) -> list[str]:
    """Returns what a reader must know about the runs behind a verdict: which were left out, and which are missing."""
    arms = dict.fromkeys(side.arm for side in claim.every_side)
    sentences, left_out = [], evidence.left_out
    taken_back = {
        run.id: evidence.reinstated[run.id]
        for side in claim.every_side
        for run in (*evidence.selected(side).runs, *evidence.selected(side).planned)
        if isinstance(run, StoredRun | RunSpec) and run.id in evidence.reinstated
    }
    if taken_back:
        count = counted(len(taken_back), "planned run was", "planned runs were")
        sentences.append(f"{count} {next(iter(taken_back.values()))}")
    absent = sorted({seed for arm in arms for seed in left_out.not_chosen.get(arm, ())})
    if absent:
        sentences.append(f"planned and not among these runs: seed {', '.join(map(str, absent))}")
    older = [code for arm in arms for code in left_out.superseded.get(arm, ())]
    if older:
        codes = ", ".join(dict.fromkeys(older))
        sentences.append(f"{counted(len(older), 'run')} of the study's earlier code ({codes}) superseded and not used")
    if evidence.code_changed:
        sentences.append(evidence.code_changed)
    further = sorted({seed for arm in arms for seed in left_out.further_seeds.get(arm, ())})
    if further:
        shown = ", ".join(map(str, further[:3])) + (", ..." if len(further) > 3 else "")
        sentences.append(f"{len(further)} seeds beyond the registered ones were not used ({shown})")
    if left_out.narrowed:
        sentences.append(f"narrowed with {left_out.narrowed}")
    unused = [selected for side in claim.every_side if (selected := evidence.selected(side)).unused]
    if unused:
        names = ", ".join(dict.fromkeys(name for selected in unused for name in selected.unused_for))
        most = max(selected.unused for selected in unused)
        sentences.append(f"{most} runs with another {names} than registered were not used")
    chosen: dict[str, list[str]] = {}
    for arm in arms:
        tuned = evidence.tuned.get(arm)
        if tuned is not None and tuned.value is not None:
            chosen.setdefault(tuned.tuned.setting, []).append(f"{evidence.declaration.label(arm)} {tuned.value}")
    sentences += [f"{setting} tuned on separate seeds: {', '.join(values)}" for setting, values in chosen.items()]
    chosen_away = evidence.unjudged_claims - evidence.never_run_claims
    if chosen_away:
        verbs = ("shares", "is") if chosen_away == 1 else ("share", "are")
        claims = counted(chosen_away, "more registered claim")
        sentences.append(f"{claims} {verbs[0]} the level and {verbs[1]} not judged here")
    return sentences
