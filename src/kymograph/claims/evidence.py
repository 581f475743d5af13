"""Which runs a claim compares: gathered from a directory, one per arm and seed, differing only in what the arms declare."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kymograph.claims.claim import Claim, Side, measure_name
from kymograph.claims.design import Design
from kymograph.claims.estimands import Run
from kymograph.claims.verdict import Checked, Point
from kymograph.io.writing import plain
from kymograph.runs.declaration import ArmSettings, Declaration
from kymograph.runs.spec import RunSpec, canonical_json
from kymograph.wording import counted

if TYPE_CHECKING:
    from kymograph.claims.tuning import TunedArm


class Invalid(Protocol):
    """A run that ended and does not count: it failed, or its record is damaged."""

    @property
    def arm(self) -> str:
        """The condition."""
        ...

    @property
    def seed(self) -> int:
        """The replication."""
        ...

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The settings; None if they are lost."""
        ...

    @property
    def failure(self) -> str:
        """Why it does not count."""
        ...


@dataclass(frozen=True)
class Selected:
    """The runs that a quantity is about, and how they compare with the registered settings."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec]
    invalid: Sequence[Invalid]
    departure: str = ""
    """How the runs' settings differ from the registered ones, as text; empty if they do not."""
    unused: int = 0
    """How many further runs of the arm have settings that were not registered."""
    unused_for: tuple[str, ...] = ()
    """The names of those settings."""


@dataclass(frozen=True)
class StudyEvidence:
    """All that is known about one study's runs: those that finished, and those that are missing or invalid."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec] = ()
    invalid: Sequence[Invalid] = ()
    """Runs that ended and do not count."""
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The settings that each arm is about; paired runs may differ in these and in nothing else."""
    qualifying: Sequence[str] = ()
    """The settings that a reader of a verdict must know."""
    unjudged: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Planned seeds, by arm, that were left out when these runs were chosen."""
    superseded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By arm, the code of every run that was made by earlier code of the study."""
    code_changed: str = ""
    """How the study's code differs from the code that made these runs, if the user named code that does."""
    changed_records: Sequence[str] = ()
    """What was deleted or edited since it was logged; if there is anything, nothing can be decided."""
    seeds: tuple[int, ...] | None = None
    """The registered seeds, over which claims are decided; None: none were registered."""
    design: Design | None = None
    """The numbers of registered seeds after which claims are decided."""
    further_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Seeds, by arm, that have runs but were not registered; they are not used."""
    unjudged_claims: int = 0
    """How many registered claims of the study are not judged here; they still share the level."""
    never_run_claims: int = 0
    """How many of these compare arms that were never run."""
    registered: ArmSettings = field(default_factory=ArmSettings)
    """The settings that every arm's runs were registered with; empty: none were."""
    defaults: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings when a user chooses none."""
    script: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings as the research script had them; empty: there is no script."""
    bookkeeping: Sequence[str] = ()
    """Settings that do not affect training."""
    abandoned: Sequence[RunSpec] = ()
    """Planned runs that were abandoned."""
    narrowed: str = ""
    """How the user narrowed the runs by their settings, as text; empty: not at all."""
    tuned: Mapping[str, TunedArm] = field(default_factory=dict)
    """The tuned arms and their chosen values, by name."""
    declaration: Declaration = field(default_factory=lambda: Declaration(""))
    """The study's names for its arms and numbers, and the ranges that numbers cannot leave."""

    def selected(self, quantity: Side) -> Selected:
        """Returns the runs that a quantity is about: those with the registered settings, if any was ever planned.

        If the user narrowed the runs by their settings: the remaining ones, whatever was registered.
        """
        key = (quantity.arm, canonical_json(plain(quantity.where)))
        if key not in self._selections:
            self._selections[key] = self._select(quantity)
        return self._selections[key]

    @functools.cached_property
    def _selections(self) -> dict[tuple[str, str], Selected]:
        return {}  # a claim selects the same runs half a dozen times, and many claims share their arms

    def _select(self, quantity: Side) -> Selected:
        runs, planned, invalid = ([run for run in group if fits(run, quantity)] for group in self.of_arm(quantity.arm))
        expected = self.registered.of(quantity.arm)
        if not expected:
            return Selected(runs, planned, invalid)
        expected |= quantity.where
        known: dict[str, bool] = {}

        def conforms(run: Run | RunSpec | Invalid) -> bool:
            text = settings_text(run)
            if text is None:
                return run.config is None or not differing(_settings(run), expected)
            if text not in known:
                known[text] = not differing(_settings(run), expected)
            return known[text]

        kept = [[run for run in group if conforms(run)] for group in (runs, planned, invalid)]
        if self.narrowed or not any(kept):
            odd = next((run for run in (*runs, *planned, *invalid) if not conforms(run)), None)
            return Selected(runs, planned, invalid, "" if odd is None else _departure(_settings(odd), expected))
        others = [run for run in runs if not conforms(run)]
        names = dict.fromkeys(name for run in distinct(others) for name in differing(run.config, expected))
        return Selected(kept[0], kept[1], kept[2], unused=len(others), unused_for=tuple(names))

    def of_arm(self, arm: str) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Returns an arm's finished, planned and invalid runs."""
        first, second, third = (group.get(arm, ()) for group in self._by_arm)
        return first, second, third

    @functools.cached_property
    def _by_arm(self) -> list[dict[str, list[Any]]]:
        found: list[dict[str, list[Any]]] = [{}, {}, {}]
        groups: tuple[Sequence[Any], ...] = (self.runs, self.planned, self.invalid)
        for by_arm, group in zip(found, groups, strict=True):
            for run in group:
                by_arm.setdefault(run.arm, []).append(run)
        return found


def settings_text(run: Any) -> str | None:
    """Returns a run's settings as text, the same for equal settings; None if it was not computed."""
    return getattr(getattr(run, "spec", run), "settings_text", None)


def distinct(runs: Iterable[Run]) -> list[Run]:
    """Returns the first run of each combination of arm and settings, whatever its seed."""
    found: dict[Any, Run] = {}
    for run in runs:
        text = settings_text(run)
        found.setdefault((run.arm, id(run) if text is None else text), run)
    return list(found.values())


def quantities(claim: Claim) -> list[Side]:
    """Returns every quantity that the claim rests on."""
    return [*claim.sides, *(check.quantity for check in claim.checks)]


def has_planned_runs(claim: Claim, world: StudyEvidence) -> bool:
    """Returns whether runs were ever planned for everything that the claim compares."""
    # A tuned arm for which no value could be chosen has no runs, but was planned all the same.
    unused = {*world.superseded, *world.further_seeds, *(arm for arm, one in world.tuned.items() if one.problem)}
    return all(
        quantity.arm in unused
        or any(fits(run, quantity) for group in (*world.of_arm(quantity.arm), world.abandoned) for run in group)
        for quantity in quantities(claim)
    )


def fits(run: Run | RunSpec | Invalid, quantity: Side) -> bool:
    """Returns whether a run has the quantity's arm and settings; one whose settings are lost counts as if it had."""
    if run.arm != quantity.arm:
        return False
    return run.config is None or all(_settings(run).get(name) == value for name, value in quantity.where.items())


def differing(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that are not as expected; empty if nothing is expected.

    A setting that is not among the expected ones was added to the study later, and is only present because it does not
    have its default.
    """
    wrong = [name for name, value in expected.items() if name not in settings or plain(settings[name]) != value]
    return wrong + [name for name in settings if name not in expected] if expected else []


def _settings(run: Run | RunSpec | Invalid) -> Mapping[str, Any]:
    return run.settings if isinstance(run, RunSpec) else run.config or {}


def _departure(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Returns how settings differ from the expected ones, as text."""
    names = differing(settings, expected)
    return ", ".join(f"{name} {settings.get(name)} instead of {expected.get(name, 'its default')}" for name in names)


TRANSFER, ALTERED = "transfer", "altered"
"""The set-up of a script's claim on other data than the script's, and with other settings."""
DATA = "data"
"""The setting that names a study's data."""


def named_settings(claim: Claim, world: StudyEvidence) -> dict[str, Any]:
    """Returns the settings that a reader must know: the qualifying ones, and all that are not the study's defaults.

    A setting with several values, because the claim compares them, lists all of them.
    """
    names = dict.fromkeys(world.qualifying)
    runs = _runs(claim, world)
    for run, _ in runs:
        names |= dict.fromkeys(differing(run.config, world.defaults.of(run.arm)))
        if not world.defaults:  # a recorded loop has none: name what its arms differ in
            names |= dict.fromkeys(differing(run.config, runs[0][0].config))
    found: dict[str, Any] = {}
    for name in names:
        values = {repr(run.config[name]): run.config[name] for run, _ in runs if name in run.config}
        if values:
            found[name] = next(iter(values.values())) if len(values) == 1 else _listed(values.values())
    return found


def _listed(values: Iterable[Any]) -> str:
    """Returns the values of a setting as "8 or 64", numbers in ascending order."""
    found = list(values)
    if all(isinstance(value, int | float) for value in found):
        found.sort()
    return " or ".join(map(str, found))


def setup_label(claim: Claim, world: StudyEvidence) -> str:
    """Returns the claim's set-up, ``script`` only if its runs have the script's data and settings.

    With other data it is a ``transfer``, with other settings ``altered``, and where there is no script ``own``.
    """
    if claim.setup != "script":
        return claim.setup
    if not world.script:
        return "own"
    names: set[str] = set()
    for run, quantity in _runs(claim, world):
        names |= set(differing(run.config, {**world.script.of(run.arm), **quantity.where}))
    names -= set(world.bookkeeping)
    return "script" if not names else TRANSFER if DATA in names else ALTERED


def _runs(claim: Claim, world: StudyEvidence) -> list[tuple[Run, Side]]:
    """Returns one run per configuration, which all seeds share, with the quantity that it is used for."""
    return [(run, quantity) for quantity in quantities(claim) for run in distinct(world.selected(quantity).runs)]


class CannotDecide(Exception):
    """The reason why a claim is INVALID."""

    def __init__(self, reason: str, points: Sequence[Point] = (), checks: Sequence[Checked] = ()) -> None:
        super().__init__(reason)
        self.reason, self.points, self.checks = reason, tuple(points), tuple(checks)


def runs_by_seed(quantity: Side, world: StudyEvidence) -> dict[int, Run]:
    """Returns the arm's run at every seed; raises if one is missing, or if several match."""
    if world.changed_records:
        raise CannotDecide("; ".join(world.changed_records))
    chosen = world.tuned.get(quantity.arm)
    if chosen is not None and chosen.problem:
        raise CannotDecide(chosen.problem)
    selected, arm = world.selected(quantity), world.declaration.label(quantity.arm)
    if selected.invalid:
        run = min(selected.invalid, key=lambda run: run.seed)
        raise CannotDecide(f"the run of {arm} at seed {run.seed} does not count: {run.failure}")
    found: dict[int, Run] = {}
    for one in selected.runs:
        if one.seed in found:
            names = sorted(name for name in one.config if one.config[name] != found[one.seed].config.get(name))
            how = f"they differ in {', '.join(names)}: choose with --where" if names else "keep one of them"
            raise CannotDecide(f"several runs of {arm} fit at seed {one.seed}; {how}")
        found[one.seed] = one
    missing = sorted({run.seed for run in selected.planned if run.seed not in found})
    if missing:
        raise CannotDecide(
            f"{len(missing)} of {len(missing) + len(found)} planned runs of {arm} are missing "
            f"(seed {', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''})"
        )
    if not found:
        older = world.superseded.get(quantity.arm)
        if older:
            raise CannotDecide(f"all {len(older)} runs of {arm} are superseded; run the study again")
        lost = [run for run in world.abandoned if fits(run, quantity)]
        if lost:
            raise CannotDecide(f"all {len(lost)} planned runs of {arm} were abandoned")
        settings = "".join(f", {name} {value}" for name, value in quantity.where.items())
        measure = measure_name(quantity.measure, world.declaration)
        raise CannotDecide(f"no finished run of {arm}{settings} has {measure}")
    return found


def check_pairing(claim: Claim, sides: Sequence[Mapping[int, Run]], world: StudyEvidence) -> None:
    """Raises if paired runs differ in a setting that no arm is about; ``sides`` are the runs of the claim's sides."""
    if not world.declared:
        return
    about: set[str] = set()
    for quantity in claim.sides:
        about |= world.declared.get(quantity.arm, frozenset()) | set(quantity.where)
    for other_side in sides[1:]:
        for seed, one in sides[0].items():
            other = other_side[seed]
            for name in sorted(set(one.config) | set(other.config)):
                if name not in about and one.config.get(name) != other.config.get(name):
                    raise CannotDecide(f"the arms differ in {name} at seed {seed}, which is not what they are about")


def remarks(claim: Claim, world: StudyEvidence) -> list[str]:
    """Returns what a reader must know about the runs behind a verdict: which were left out, and which are missing."""
    arms = dict.fromkeys(quantity.arm for quantity in quantities(claim))
    found = []
    left_out = sorted({seed for arm in arms for seed in world.unjudged.get(arm, ())})
    if left_out:
        found.append(f"planned and not among these runs: seed {', '.join(map(str, left_out))}")
    older = [code for arm in arms for code in world.superseded.get(arm, ())]
    if older:
        codes = ", ".join(dict.fromkeys(older))
        count = counted(len(older), "run")
        found.append(f"{count} of the study's earlier code ({codes}) superseded and not used")
    if world.code_changed:
        found.append(world.code_changed)
    further = sorted({seed for arm in arms for seed in world.further_seeds.get(arm, ())})
    if further:
        shown = ", ".join(map(str, further[:3])) + (", ..." if len(further) > 3 else "")
        found.append(f"{len(further)} seeds beyond the registered ones were not used ({shown})")
    if world.narrowed:
        found.append(f"narrowed with {world.narrowed}")
    unused = [selected for quantity in quantities(claim) if (selected := world.selected(quantity)).unused]
    if unused:
        names = ", ".join(dict.fromkeys(name for selected in unused for name in selected.unused_for))
        found.append(f"{max(one.unused for one in unused)} runs with another {names} than registered were not used")
    found += _tuning_remarks(list(arms), world)
    chosen_away = world.unjudged_claims - world.never_run_claims
    if chosen_away:
        verbs = ("shares", "is") if chosen_away == 1 else ("share", "are")
        claims = counted(chosen_away, "more registered claim")
        found.append(f"{claims} {verbs[0]} the level and {verbs[1]} not judged here")
    return found


def _tuning_remarks(arms: Sequence[str], world: StudyEvidence) -> list[str]:
    """Returns the values chosen for a claim's tuned arms, one sentence per setting."""
    chosen: dict[str, list[str]] = {}
    for arm in arms:
        one = world.tuned.get(arm)
        if one is not None and one.value is not None:
            chosen.setdefault(one.tuned.setting, []).append(f"{world.declaration.label(arm)} {one.value}")
    return [f"{setting} tuned on separate seeds: {', '.join(values)}" for setting, values in chosen.items()]
