"""What is known about one study's runs, and which of them a claim is about."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kymograph.claims.claim import Claim, Quantity
from kymograph.claims.design import Design
from kymograph.claims.estimands import Run
from kymograph.runs.arm_settings import ArmSettings
from kymograph.runs.declaration import Declaration
from kymograph.runs.files import plain
from kymograph.runs.spec import RunSpec, canonical_json

if TYPE_CHECKING:
    from kymograph.claims.tuned_arms import TunedArm


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
    """The runs that a quantity is about, and how they stand to the registered settings."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec]
    invalid: Sequence[Invalid]
    departure: str = ""
    """In what the runs' settings are not those registered, in words; empty: in nothing."""
    unused: int = 0
    """How many further runs of the arm have settings that were not registered."""
    unused_for: tuple[str, ...] = ()
    """The names of those settings."""


@dataclass(frozen=True)
class World:
    """All that is known about one study's runs: those that finished, and those that should be there and are not."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec] = ()
    invalid: Sequence[Invalid] = ()
    """Runs that ended and do not count."""
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The settings that each arm is about; paired runs may differ in these and in nothing else."""
    qualifying: Sequence[str] = ()
    """The settings that a reader of a verdict must know."""
    unjudged: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Planned seeds, by arm, that whoever chose these runs left out."""
    superseded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The code of every run of each arm that was made by earlier code of the study."""
    code_changed: str = ""
    """How the study's code differs from what made these runs, if whoever judges named code that does."""
    changed_records: Sequence[str] = ()
    """What was deleted or edited since it was logged; while there is anything, nothing can be decided."""
    seeds: tuple[int, ...] | None = None
    """The registered seeds, over which claims are decided; None: none were registered."""
    design: Design | None = None
    """After how many of the registered seeds claims are decided."""
    further_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Seeds, by arm, that have runs and were not registered; they are not used."""
    unjudged_claims: int = 0
    """How many claims of the study were registered and are not judged here; they still share the level."""
    never_run_claims: int = 0
    """How many of these compare arms that were never run."""
    registered: ArmSettings = field(default_factory=ArmSettings)
    """The settings that every arm's runs were registered with; nothing: none were."""
    defaults: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings when a user chooses none."""
    script: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings as the research script had them; nothing: there is no script."""
    bookkeeping: Sequence[str] = ()
    """Settings that change nothing about training."""
    abandoned: Sequence[RunSpec] = ()
    """Planned runs that somebody gave up."""
    narrowed: str = ""
    """How whoever judges chose among the runs by their settings, in words; empty: not at all."""
    tuned: Mapping[str, TunedArm] = field(default_factory=dict)
    """What was chosen for the arms that are tuned, by name."""
    declaration: Declaration = field(default_factory=lambda: Declaration(""))
    """What the study calls its arms and numbers, and the ranges that numbers cannot leave."""

    def selected(self, quantity: Quantity) -> Selected:
        """Returns the runs that a quantity is about: those with the registered settings, if any was ever planned.

        Whoever narrows the runs by their settings gets those that are left, whatever was registered.
        """
        key = (quantity.arm, canonical_json(plain(quantity.where)))
        if key not in self._selections:
            self._selections[key] = self._select(quantity)
        return self._selections[key]

    @functools.cached_property
    def _selections(self) -> dict[tuple[str, str], Selected]:
        return {}  # a claim asks for the same runs half a dozen times, and many claims are about the same arms

    def _select(self, quantity: Quantity) -> Selected:
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
        """Returns the runs of an arm that finished, were planned, and do not count."""
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
    """Returns a run's settings as one text, which runs with the same settings share; None if nobody worked it out."""
    return getattr(getattr(run, "spec", run), "settings_text", None)


def distinct(runs: Iterable[Run]) -> list[Run]:
    """Returns the first run of each arm and settings; seeds differ in neither."""
    found: dict[Any, Run] = {}
    for run in runs:
        text = settings_text(run)
        found.setdefault((run.arm, id(run) if text is None else text), run)
    return list(found.values())


def quantities(claim: Claim) -> list[Quantity]:
    """Returns every quantity that the claim rests on."""
    return [*claim.sides, *(check.quantity for check in claim.checks)]


def asked(claim: Claim, world: World) -> bool:
    """Says whether everything that the claim compares was ever set out to run."""
    # An arm for which nothing could be chosen has no runs, and was asked about all the same.
    unused = {*world.superseded, *world.further_seeds, *(arm for arm, one in world.tuned.items() if one.problem)}
    return all(
        quantity.arm in unused
        or any(fits(run, quantity) for group in (*world.of_arm(quantity.arm), world.abandoned) for run in group)
        for quantity in quantities(claim)
    )


def fits(run: Run | RunSpec | Invalid, quantity: Quantity) -> bool:
    """Says whether a run is of the quantity's arm and settings; one whose settings are lost may be."""
    if run.arm != quantity.arm:
        return False
    return run.config is None or all(_settings(run).get(name) == value for name, value in quantity.where.items())


def differing(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that are not as expected; nothing if nothing is expected.

    A setting that is not among the expected ones was added to the study later, and is there because it has not its
    default.
    """
    wrong = [name for name, value in expected.items() if name not in settings or plain(settings[name]) != value]
    return wrong + [name for name in settings if name not in expected] if expected else []


def _settings(run: Run | RunSpec | Invalid) -> Mapping[str, Any]:
    return run.settings if isinstance(run, RunSpec) else run.config or {}


def _departure(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Returns in what settings are not as expected, in words."""
    names = differing(settings, expected)
    return ", ".join(f"{name} {settings.get(name)} instead of {expected.get(name, 'its default')}" for name in names)
