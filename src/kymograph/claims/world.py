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
class World:
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

    def selected(self, quantity: Quantity) -> Selected:
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


def quantities(claim: Claim) -> list[Quantity]:
    """Returns every quantity that the claim rests on."""
    return [*claim.sides, *(check.quantity for check in claim.checks)]


def has_planned_runs(claim: Claim, world: World) -> bool:
    """Returns whether runs were ever planned for everything that the claim compares."""
    # A tuned arm for which no value could be chosen has no runs, but was planned all the same.
    unused = {*world.superseded, *world.further_seeds, *(arm for arm, one in world.tuned.items() if one.problem)}
    return all(
        quantity.arm in unused
        or any(fits(run, quantity) for group in (*world.of_arm(quantity.arm), world.abandoned) for run in group)
        for quantity in quantities(claim)
    )


def fits(run: Run | RunSpec | Invalid, quantity: Quantity) -> bool:
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
