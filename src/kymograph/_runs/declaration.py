"""What a study says about itself, as data stored with its runs (``STUDY/study.json``).

Report, live page, judge and export know nothing else about a study: none refers to a study by name, and a study whose
code is not installed is shown, judged and exported like any other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT, check_inside, read_bytes
from kymograph._io.writing import SCHEMA, one_at_a_time, plain, read_versioned_json, write_atomically
from kymograph._runs.spec import slug
from kymograph._runs.tuned import Tuned, rules_from_json

FILE = "study.json"
OVER_DEPTH = ("kymograph", "profile")
"""The default forms for a series with a value per layer."""
COLOURS = ("blue", "vermilion", "green", "purple", "orange", "sky", "black")
"""The colours that an arm may have (Okabe and Ito, 2008)."""
DASHES = ("solid", "dashed", "dotted", "dash-dot", "short", "long")
"""The dash patterns that an arm's line may have."""
LAST = 1000
"""The order of a study that declares none, which puts it after those that do."""


@dataclass(frozen=True)
class Arm:
    """One condition of a study.

    >>> ky.Arm("adam", "Adam instead of SGD", treatment={"optimizer": "adam"}, preset={"lr": 1e-3}, default=True).name
    'adam'

    ``treatment`` holds the settings that the arm is about, which the user cannot override; ``preset`` holds settings
    that come with the arm, which the user may override.
    """

    name: str
    about: str = ""
    treatment: Mapping[str, Any] = field(default_factory=dict)
    preset: Mapping[str, Any] = field(default_factory=dict)
    default: bool = False
    """Whether the arm runs when no arms are named."""
    panel: str = ""
    """Arms of one panel share a chart; empty: charts take a few arms each, in order."""
    label: str = ""
    """What figures and reports call the arm, e.g. ``BP, no terminal LayerNorm``; empty: its name."""
    colour: str = ""
    """One of `COLOURS`, in every figure and report; empty: the next free one. Studies share a colour by naming it."""
    dash: str = ""
    """One of `DASHES`; empty: the first that no other arm of this colour has."""
    baseline: bool = False
    """Whether the arm is drawn in every panel, so that the others can be compared with it."""

    def __post_init__(self) -> None:
        for what, value, allowed in (("colour", self.colour, COLOURS), ("dash", self.dash, DASHES)):
            if value and value not in allowed:
                words = ", ".join(allowed)
                raise KymographError(f"the {what} of arm {self.name} must be one of {words}, not {value!r}")


@dataclass(frozen=True)
class SeriesDisplay:
    """How one series is shown: its title, scale and forms.

    >>> shown = [
    ...     ky.SeriesDisplay("loss", "Training loss", "cross-entropy", log=True),
    ...     ky.SeriesDisplay("gradient", "Gradient", "norm", forms=("kymograph",), options={"sites": "block"}),
    ...     ky.SeriesDisplay("gradient", "Gradient of the last block", "norm", site="block 8"),
    ... ]
    >>> [display.title for display in shown]
    ['Training loss', 'Gradient', 'Gradient of the last block']

    Args:
        series: the name under which it is logged.
        title: the heading of its charts.
        unit: the label of the value axis or colour bar.
        log: whether that scale is logarithmic. None: for curves and profiles if all values are positive and span more
            than a factor of 50; for colours if all are positive, or if there are zeros among values that span as much.
        bin_by: how a long series is binned: by the ``mean`` of each bin, or by its ``max`` where peaks matter.
        site: the one site to draw as curves, for a series with a value per site (e.g. per layer).
        forms: the kinds of chart: ``curves`` over training (at ``site``, for a series with sites); for a series with
            sites, ``kymograph``, sites against training time with values as colours, and ``profile``, the last values
            against the sites. A package can add others (`kymograph._pictures.report_page.sections`).
        options: those of particular forms: ``sites``, what the sites are called (``layer``), for ``kymograph`` and
            ``profile``; ``relative``, whether a kymograph is first shown relative to its start; ``numbers``, the
            summary numbers that describe the series, so that claims about them are linked to its charts.
    """

    series: str
    title: str
    unit: str
    log: bool | None = None
    bin_by: Literal["mean", "max"] = "mean"
    site: str | None = None
    forms: tuple[str, ...] = ("curves",)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ArmSettings:
    """Resolved settings by arm; values that most arms share are stored once."""

    shared: Mapping[str, Any] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def pack(by_arm: Mapping[str, Mapping[str, Any]]) -> ArmSettings:
        """Packs settings by arm, taking the most common value of each setting as the shared one."""
        if not by_arm:
            return ArmSettings()
        configs = {arm: plain(dict(settings)) for arm, settings in by_arm.items()}
        shared = {}
        for name in next(iter(configs.values())):
            values = [settings.get(name) for settings in configs.values()]
            shared[name] = max(values, key=values.count)
        arms = {
            arm: {name: value for name, value in settings.items() if name not in shared or shared[name] != value}
            for arm, settings in configs.items()
        }
        return ArmSettings(shared, arms)

    def of(self, arm: str) -> dict[str, Any]:
        """Returns an arm's settings; empty for an unknown arm."""
        return {**self.shared, **self.arms[arm]} if arm in self.arms else {}

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON-compatible dictionary."""
        return {"shared": dict(self.shared), "arms": {arm: dict(settings) for arm, settings in self.arms.items()}}

    @staticmethod
    def from_json(content: Any) -> ArmSettings:
        """Rebuilds the settings from the output of `to_json`; raises ValueError if it is invalid."""
        try:
            shared, arms = content["shared"], content["arms"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"settings by arm lack {error}") from None
        if not isinstance(shared, dict) or not _is_nested(arms):
            raise ValueError("settings by arm must be objects")
        return ArmSettings(shared, arms)

    def __bool__(self) -> bool:
        return bool(self.arms)


def differing(settings: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that are not as expected; empty if nothing is expected.

    A setting that is not among the expected ones was added to the study later, and is only present because it does not
    have its default.
    """
    wrong = [name for name, value in expected.items() if name not in settings or plain(settings[name]) != value]
    return wrong + [name for name in settings if name not in expected] if expected else []


@dataclass(frozen=True)
class Declaration:
    """A study's question, arms, headline numbers, series to show, time axis and qualifying settings."""

    name: str
    question: str = ""
    version: int = 0
    source: str | None = None
    """The hash of a user-defined study's code; None for a built-in study, which has only a version."""
    arms: tuple[Arm, ...] = ()
    headlines: Mapping[str, str] = field(default_factory=dict)
    """Headline numbers: keys of the summary, with their labels."""
    series: tuple[SeriesDisplay, ...] = ()
    time: str = "training step"
    """The label of the axis that the series run over."""
    qualifying: tuple[str, ...] = ()
    """Settings without which a verdict on the study's runs could be misread, e.g. the data."""
    order: int = LAST
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further tables of summary numbers: by title, keys of the summary with their labels."""
    methods: str = ""
    """Sentences on how the runs are made, for the methods section of a report, e.g. where random numbers come from."""
    defaults: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's default settings."""
    reference_settings: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings in the published set-up that the study follows; empty if it follows none."""
    bookkeeping: tuple[str, ...] = ()
    """Settings that control what is stored of a run and do not affect its training."""
    part_sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The current sources of runs with users' own parts: for each source, its parts with their hashes."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    """The tuning rule of each tuned arm, by name."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ranges that summary numbers and series cannot leave, e.g. ``{"accuracy": (0, 1)}``; intervals stay inside."""
    p_values: tuple[str, ...] = ()
    """Summary numbers that are p-values; tables show their median and range."""
    stored: bool = field(default=False, compare=False)
    """Whether it was read from disk with the runs, and so identifies the code that made the current ones."""

    @property
    def declared_fields(self) -> dict[str, frozenset[str]]:
        """The settings that each arm is about; paired runs may differ in these and in nothing else."""
        chosen = {arm: {rule.setting} for arm, rule in self.tuned.items()}
        return {
            arm.name: frozenset(arm.treatment) | frozenset(arm.preset) | chosen.get(arm.name, set())
            for arm in self.arms
        }

    @property
    def labels(self) -> dict[str, str]:
        """The arms' labels in figures and reports, by name."""
        return {arm.name: arm.label or arm.name for arm in self.arms}

    def label(self, arm: str) -> str:
        """Returns an arm's label; an undeclared arm keeps its name."""
        return self.labels.get(arm, arm)

    def with_part_sources(
        self, sources: Mapping[str, Mapping[str, str]], before: Declaration | None = None
    ) -> Declaration:
        """Returns the declaration with the sources of a sweep whose runs have users' own parts.

        Sources declared ``before`` stay current unless the study or one of their parts was edited.
        """
        now = {part: digest for parts in sources.values() for part, digest in parts.items()}
        current = {}
        if before is not None and (before.version, before.source) == (self.version, self.source):
            for source, parts in before.part_sources.items():
                if all(now.get(part, digest) == digest for part, digest in parts.items()):
                    current[source] = parts
        return replace(self, part_sources={**current, **sources})

    def to_json(self) -> dict[str, Any]:
        """Returns the declaration as a JSON-compatible dictionary; its order of keys is that of the fields."""
        content = {_KEYS.get(name, name): value for name, value in asdict(self).items() if name != "stored"}
        for display in content["series"]:
            display["facts"] = display.pop("options")
        content["tuned"] = {arm: rule.to_json() for arm, rule in self.tuned.items()}
        for name in ("part_sources", "p_values", "tuned"):  # few studies have any
            if not content[name]:
                del content[name]
        return {name: plain(value) for name, value in content.items()}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Declaration:
        """Rebuilds the declaration from the output of `to_json`; raises ValueError if it is invalid."""
        try:
            arms = tuple(
                Arm(**_with_strings(arm, "name", "about", "panel", "label", "colour", "dash"))
                for arm in content["arms"]
            )
            if not all(isinstance(arm.treatment, dict) and isinstance(arm.preset, dict) for arm in arms):
                raise ValueError("an arm's treatment and preset must be objects")
            if not isinstance(content["version"], int) or not isinstance(content["order"], int):
                raise ValueError("version and order must be whole numbers")
            if not isinstance(content["source"], str | None):
                raise ValueError("source must be a string")
            if not _is_nested(content.get("part_sources", {})):
                raise ValueError("part_sources must be an object of objects")
            texts = _with_strings(content, "name", "question", "time", "methods")
            return Declaration(
                texts["name"],
                texts["question"],
                content["version"],
                content["source"],
                arms,
                _texts(content["headlines"]),
                tuple(map(_display, content["series"])),
                texts["time"],
                tuple(map(str, content["qualifying"])),
                content["order"],
                {str(title): _texts(columns) for title, columns in content["tables"].items()},
                texts["methods"],
                ArmSettings.from_json(content["defaults"]),
                ArmSettings.from_json(content["script"]),
                tuple(map(str, content["bookkeeping"])),
                content.get("part_sources", {}),
                rules_from_json(content.get("tuned", {})),
                {str(name): (float(low), float(high)) for name, (low, high) in content["bounds"].items()},
                tuple(map(str, content.get("p_values", ()))),
            )
        except (TypeError, KeyError, AttributeError, KymographError) as error:
            raise ValueError(str(error)) from None


_KEYS = {"reference_settings": "script"}
"""The keys on disk of the fields that have another name there."""


def _display(content: Mapping[str, Any]) -> SeriesDisplay:
    fields = _with_strings(content, "series", "title", "unit")
    return SeriesDisplay(forms=tuple(map(str, fields.pop("forms"))), options=fields.pop("facts"), **fields)


def _with_strings(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns a copy of ``content``; raises TypeError if one of ``names`` is present and not a string."""
    for name in names:
        if name in content and not isinstance(content[name], str):
            raise TypeError(f"{name} must be a string")
    return dict(content)


def _texts(content: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in content.items()}


def _is_nested(content: Any) -> bool:
    """Returns whether ``content`` is an object of objects."""
    return isinstance(content, dict) and all(isinstance(value, dict) for value in content.values())


def study_directory(root: Path, study: str) -> Path:
    """Returns a study's directory below ``root``; raises if a link leads it outside."""
    directory = root / slug(study)
    check_inside(directory, root)
    return directory


def check_same_study(directory: Path, declared: Declaration | None, study: str) -> None:
    """Raises if the directory is that of another study: ``a b`` and ``a-b`` would share one."""
    if declared is not None and declared.name != study:
        raise KymographError(
            f"{directory} is the directory of {declared.name!r}, and would be that of {study!r} too; "
            f"choose another name, or another output directory"
        )


def read_declaration(directory: Path) -> Declaration | None:
    """Returns the declaration in a study's directory; None if there is none."""
    path = directory / FILE
    if not path.exists():
        return None
    remedy = "restore it from a copy, or rename it and run the study again to rewrite it"
    try:
        return replace(Declaration.from_json(read_versioned_json(path, remedy=remedy)), stored=True)
    except ValueError as error:
        raise KymographError(f"{path} does not declare a study ({error}); {remedy}") from None


def write_declaration(
    directory: Path,
    declaration: Declaration,
    part_sources: Mapping[str, Mapping[str, str]] | None = None,
    read: Callable[[Path], Declaration | None] = read_declaration,
) -> None:
    """Writes the declaration to a study's directory, replacing the previous one if it differs.

    ``part_sources`` are added to those declared before, which ``read`` returns under the same lock. Raises if another
    study was declared there.
    """
    path = directory / FILE
    with one_at_a_time(directory):
        before = read(directory)
        check_same_study(directory, before, declaration.name)
        if part_sources is not None:
            declaration = declaration.with_part_sources(part_sources, before)
        # Keys are not sorted: headline numbers and nulls are shown in the order in which the study declares them.
        content = (json.dumps({"schema": SCHEMA, **declaration.to_json()}, indent=1) + "\n").encode()
        try:
            unchanged = read_bytes(path, MAX_DOCUMENT, follow=False) == content
        except KymographError:
            unchanged = False
        if not unchanged:
            write_atomically(path, content)


NOT_NEGATIVE = (0.0, math.inf)
"""The range of norms, standard deviations and squared errors."""
_USUAL_BOUNDS: Mapping[frozenset[str], tuple[float, float]] = {
    frozenset({"accuracy", "acc", "probability", "prob", "fraction", "share", "p"}): (0.0, 1.0),
    frozenset({"cosine", "cos", "correlation"}): (-1.0, 1.0),
}
"""Usual ranges, by words in a summary number's or series' name."""


def bounds_of(
    name: str, values: np.ndarray | Iterable[Any], declared: Mapping[str, tuple[float, float]] | None = None
) -> tuple[float, float] | None:
    """Returns the range that the number ``name`` cannot leave; None if there is none, or if ``values`` leave it.

    >>> bounds_of("test_accuracy", [0.5, 0.9]), bounds_of("test_accuracy", [50.0, 90.0]), bounds_of("loss", [0.5])
    ((0.0, 1.0), None, None)
    """
    stated = (declared or {}).get(name)
    words = set(re.split(r"[^a-z]+", name.lower()))
    limits = stated or next((usual for of, usual in _USUAL_BOUNDS.items() if words & of), None)
    if limits is None:
        return None
    if not isinstance(values, np.ndarray):
        values = np.array([value for value in values if isinstance(value, int | float)], dtype=np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return limits if stated else None
    return limits if limits[0] <= finite.min() and finite.max() <= limits[1] else None
