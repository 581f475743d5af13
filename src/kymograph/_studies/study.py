"""The interface between a study and everything that runs, stores, draws or judges it."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._registry import Registry
from kymograph._runs.declaration import LAST, Arm, ArmSettings, Declaration, SeriesDisplay
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec, digest, settings_of
from kymograph._runs.tuned import SUFFIX, Tuned
from kymograph._studies.settings import build_config, check_settings
from kymograph._sweep.code_loading import part_hashes
from kymograph._sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph._claims.claim import Claim
    from kymograph._runs.store import Store


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study's own: the function that draws it from stored runs, and what is known about it.

    >>> def draw_profile(store, style=None):
    ...     ...
    >>> def figures(self):  # a method of the study
    ...     return {"warmup-profile": StudyFigure(draw_profile, "the profile over depth")}
    >>> figures(None)["warmup-profile"].accepts("style")
    True
    """

    draw: Callable[..., Figure]
    about: str
    """A line about the figure, for lists."""
    file_name: str = ""
    """The name of its files; empty: the figure's name."""
    from_files: Callable[..., Figure] | None = None
    """The function that draws it from files of another program, given their paths, if there is one."""

    def __call__(self, store: Store, **options: Any) -> Figure:
        """Draws the figure from ``store``; ``options`` are the function's own, such as ``style``."""
        return self.draw(store, **options)

    def accepts(self, option: str) -> bool:
        """Returns whether the figure's functions for runs and for files all take an option of that name."""
        functions = [function for function in (self.draw, self.from_files) if function is not None]
        return all(option in inspect.signature(function).parameters for function in functions)


def about(draw: Callable[..., Any]) -> str:
    """Returns a line about a figure: what its study says, or the first line of its function's docstring."""
    return draw.about if isinstance(draw, StudyFigure) else (draw.__doc__ or "").strip().split("\n")[0]


Config = TypeVar("Config")
SEEDED = (
    "Random numbers come from generators that depend only on seed and purpose, so that arms with the same seed share "
    "initial weights, data and the order of batches as far as possible, and comparisons are paired by seed."
)
"""The methods text of a study whose random numbers all come from `kymograph._streams`."""


class Study(ABC, Generic[Config]):
    """A question, the arms that answer it, how a stack of its runs is trained, its claims and its figures.

    >>> @dataclass(frozen=True)
    ... class WalkConfig:
    ...     drift: float = 0.0
    ...     steps: int = 20
    >>> class Walk(ky.Study[WalkConfig]):
    ...     name, question, config_type = "walk", "Does drift carry a walk away?", WalkConfig
    ...     def arms(self):
    ...         return [ky.Arm("drift", treatment={"drift": 0.5}, default=True), ky.Arm("still", default=True)]
    ...     def train(self, specs, work):
    ...         return [self.walk(spec) for spec in specs]
    ...     def walk(self, spec):
    ...         steps = np.random.default_rng(spec.seed).normal(spec.config.drift, size=spec.config.steps)
    ...         walk = ky.RunSeries(np.arange(len(steps)), steps.cumsum())
    ...         return ky.RunResult({"position": walk}, {"end": walk.value[-1]})
    >>> study = Walk()
    >>> [spec.arm for spec in study.specs(seeds=[42, 123])]
    ['drift', 'drift', 'still', 'still']
    >>> result, = study.train(study.specs([42], ["drift"]), ky.Workplace("cpu"))
    >>> result.series["position"].value.shape
    (20,)

    A study that is a package imports what needs torch or matplotlib inside its `train`, `claims` and `figures`, so that
    declaring it imports neither.
    """

    name: ClassVar[str]
    question: ClassVar[str]
    version: ClassVar[int] = 1
    """Raised whenever the numbers change, so that stored runs of an older version are not mistaken for new ones."""
    config_type: ClassVar[type]
    largest_stack: ClassVar[int] = 1
    """The most runs that train in one stack."""
    threads: int | None = None
    """How many torch threads a stack can use when it is computed in this process; None: all."""
    processes: int = 1
    """How many processes train each run together, in a process group."""
    order: ClassVar[int] = LAST
    """The study's position among others, in lists and reports."""

    headlines: ClassVar[Mapping[str, str]] = {}
    """The key summary numbers of a run, with their labels."""
    p_values: ClassVar[Collection[str]] = ()
    """Which summary numbers are p-values: tables show their median and range, as their mean has no meaning."""
    series: ClassVar[Sequence[SeriesDisplay]] = ()
    """Which series a report shows, and how; default: all of them."""
    time: ClassVar[str] = "training step"
    """The label of the time axis of the series."""
    qualifying: ClassVar[Sequence[str]] = ()
    """The settings without which a verdict on the study's runs could be misread, e.g. the data."""
    reference_settings: ClassVar[Mapping[str, Any] | None] = None
    """The settings in which the work that the study repeats differs from the defaults; None: it repeats none.

    A verdict names that work only if its runs have these settings."""
    bookkeeping: ClassVar[Sequence[str]] = ()
    """Settings that affect what is recorded of a run, e.g. how often it is measured, but not its training."""
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Further tables of summary numbers in a report: by title, the numbers with their labels."""
    methods: ClassVar[str] = ""
    """How the runs are computed, in sentences for the methods section of a report, e.g. `SEEDED`."""
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Ranges of bounded summary numbers and series whose names do not imply them, e.g. an accuracy in %."""
    tune: ClassVar[Tuned | Mapping[str, Tuned] | None] = None
    """How arms are tuned before evaluation: one rule for all, or rules by name or pattern; the first match applies.

    ``tune = Tuned("lr", (0.3, 0.1, 0.03, 0.01), by="accuracy", best="highest")``, or
    ``tune = {"adam/*": Tuned("lr", (3e-3, 1e-3, 3e-4), by="loss", best="lowest"), "sgd": ...}``.
    """
    column_notes: ClassVar[Mapping[str, str]] = {}
    """What a reader should know about single summary numbers, shown below the tables of a report that have them."""
    setup_meanings: ClassVar[Mapping[str, str]] = {}
    """What the set-up labels of the study's claims mean, a sentence each, shown in a report that has them."""

    source: str | None = None
    """The hash of a user-defined study's code, set when it is loaded; None for a built-in study."""

    @abstractmethod
    def arms(self) -> Sequence[Arm]:
        """Returns every arm, the default ones first."""

    def stack_key(self, config: Config) -> tuple[Any, ...]:
        """Returns what must be equal for two runs to train in one stack."""
        return ()

    def steps(self, config: Config) -> int:
        """Returns how many steps a run takes, for progress bars."""
        return 1

    def parts(self, config: Config) -> Sequence[tuple[Registry, str]]:
        """Returns the registered parts that a configuration names, e.g. its rule; a user's own are part of identity."""
        return ()

    @abstractmethod
    def train(self, specs: Sequence[RunSpec[Config]], work: Workplace) -> list[RunResult]:
        """Trains all ``specs`` together as one stack of replicas; returns their results in that order."""

    def claims(self) -> Sequence[Claim]:
        """Returns the predictions about the runs, to be registered before they exist."""
        return ()

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the functions that draw this study's figures from stored runs, by name; `StudyFigure` says more."""
        return {}

    def prepare(self, specs: Sequence[RunSpec[Config]], data_dir: Path | None) -> None:
        """Raises, before anything is written, if something that these runs need is missing."""

    def declaration(self) -> Declaration:
        """Returns the study's declaration, as stored with its runs."""
        return Declaration(
            self.name,
            self.question,
            self.version,
            self.source,
            tuple(self.arms()),
            dict(self.headlines),
            tuple(self.series),
            self.time,
            tuple(self.qualifying),
            self.order,
            {title: dict(columns) for title, columns in self.tables.items()},
            self.methods,
            self.arm_settings({}),
            ArmSettings() if self.reference_settings is None else self.arm_settings(self.reference_settings),
            tuple(self.bookkeeping),
            tuned=self.tuning(),
            bounds=dict(self.bounds),
            p_values=tuple(self.p_values),
        )

    def tuning(self) -> dict[str, Tuned]:
        """Returns the tuning rules by arm; raises if one of them is invalid."""
        rules = {"*": self.tune} if isinstance(self.tune, Tuned) else dict(self.tune or {})
        rule_of_arm: dict[str, Tuned] = {}
        for arm in self.arms() if rules else ():
            matching = (rules[name] for name in rules if arm.name == name or fnmatch.fnmatchcase(arm.name, name))
            rule = next(matching, None)
            if rule is None:
                continue
            if rule.setting in arm.treatment:
                raise KymographError(
                    f"{self.name} tunes {rule.setting}, which the arm {arm.name!r} sets itself; drop one"
                )
            for value in rule.grid:
                build_config(self.config_type, {**arm.preset, rule.setting: value, **arm.treatment}, self.name)
            rule_of_arm[arm.name] = rule
        return rule_of_arm

    def arm_settings(self, fields: Mapping[str, Any]) -> ArmSettings:
        """Returns every arm's settings with ``fields`` set; an arm whose treatment includes one keeps its own value."""
        settings = {}
        for arm in self.arms():
            with contextlib.suppress(KymographError):  # settings that an arm's network does not allow
                config = build_config(self.config_type, {**arm.preset, **fields, **arm.treatment}, self.name)
                settings[arm.name] = settings_of(config)
        return ArmSettings.pack(settings)

    def specs(
        self,
        seeds: Sequence[int],
        arms: Sequence[str] | None = None,
        fields: Mapping[str, Any] | None = None,
        of_arms: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[RunSpec[Config]]:
        """Returns the runs of the named arms (default: the default arms) at ``seeds``, with ``fields`` set.

        ``of_arms`` gives additional settings of single arms, e.g. those that tuning chose.
        """
        specs = []
        for arm in self.choose_arms(arms):
            given = {**(fields or {}), **(of_arms or {}).get(arm.name, {})}
            for name in given:
                if name in arm.treatment and given[name] != arm.treatment[name]:
                    raise KymographError(
                        f"{name} cannot be set: the arm {arm.name!r} fixes it at {arm.treatment[name]!r}; choose arms "
                        "with --arms instead"
                    )
            config = build_config(self.config_type, {**arm.preset, **given, **arm.treatment}, self.name)
            source = self.source_with_parts(config)
            specs += RunSpec(self.name, arm.name, 0, config, self.version, source).at_seeds(seeds)
        return specs

    def choose_arms(self, names: Sequence[str] | None) -> list[Arm]:
        """Returns the named arms in the study's order; names may be patterns such as ``extreme/*``."""
        arms = {arm.name: arm for arm in self.arms()}
        if not names:
            return [arm for arm in arms.values() if arm.default]
        chosen: set[str] = set()
        for name in names:
            matches = fnmatch.filter(arms, name)
            if not matches:
                raise UsageError(f"{self.name} has no arm {name!r}{did_you_mean(name, arms)}")
            chosen.update(matches)
        return [arm for arm in arms.values() if arm.name in chosen]

    def typed(self, spec: RunSpec[Any]) -> RunSpec[Config]:
        """Returns a spec read from disk, or received by a worker, with the study's own configuration."""
        config = spec.config
        if not isinstance(config, self.config_type):
            try:
                config = self.config_type(**spec.settings)
            except TypeError as error:
                raise KymographError(f"a run of {self.name} has settings that its code lacks: {error}") from None
        if spec.source != self.source_with_parts(config):
            raise KymographError(f"the code of {self.name} changed while its runs were waiting; run the command again")
        return spec if config is spec.config else dataclasses.replace(spec, config=config)

    def source_with_parts(self, config: Config) -> str | None:
        """Returns the hash of the study's code and of the user's parts that ``config`` names; None if all is built in.

        A part's file is hashed as it is now; the part is loaded when the run is trained.
        """
        hashes = part_hashes(self.parts(config))
        return self.source if not hashes else digest({"study": self.source, "parts": hashes})

    def part_sources(self, specs: Sequence[RunSpec[Config]]) -> dict[str, dict[str, str]]:
        """Returns the user-defined parts of the runs that have any, with their hashes, by the runs' source."""
        parts = {spec.source: part_hashes(self.parts(spec.config)) for spec in specs}
        return {source: hashes for source, hashes in parts.items() if source is not None and hashes}

    def __repr__(self) -> str:
        return f"<study {self.name}: {self.question}>" if self.question else f"<study {self.name}>"


def check_study(study: Study[Any], what: str) -> None:
    """Raises if a study lacks a required attribute; ``what`` names the study in the message."""
    for name in ("name", "question"):
        given = getattr(study, name, None)
        if not isinstance(given, str) or (name == "name" and not given):
            raise KymographError(f'{what} has no {name}; every study needs `{name} = "..."`')
    config_type = getattr(study, "config_type", None)
    if not isinstance(config_type, type) or not dataclasses.is_dataclass(config_type):
        raise KymographError(f"{what} has no config_type; every study needs one, a dataclass of its settings")
    check_settings(config_type, what)
    for name, limits in study.bounds.items():
        pair = tuple(limits) if isinstance(limits, Sequence) and not isinstance(limits, str) else ()
        if len(pair) != 2 or not all(isinstance(end, int | float) for end in pair) or not pair[0] < pair[1]:
            raise KymographError(f"{what} gives {name} the bounds {limits!r}; give (lowest, highest)")
    if study.name.endswith(SUFFIX):
        raise KymographError(f"the name of {what} cannot end in {SUFFIX!r}, which is reserved for tuning runs")
