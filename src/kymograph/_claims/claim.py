"""What a claim is: a prediction about one number per seed, frozen and hashed before any run exists."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kymograph._errors import KymographError
from kymograph._io.writing import plain
from kymograph._rounding import number_text
from kymograph._runs.declaration import Declaration

Direction = Literal["greater", "less", "not less", "not greater", "equal"]
Scale = Literal["difference", "log ratio"]
DIRECTIONS = ("greater", "less", "not less", "not greater", "equal")
ABSENCES = ("not less", "not greater")
"""Directions that claim the absence of an effect of the margin's size."""
SCALES = ("difference", "log ratio")
SCALE_WORDS: Mapping[str, Scale] = {"ratio": "log ratio", "log ratio": "log ratio", "difference": "difference"}
"""The scales, by the words that users may give for them."""
SIGNS: Mapping[str, Direction] = {"<": "less", ">": "greater", ">=": "not less", "<=": "not greater", "==": "equal"}
MANIPULATION_CHECK = "manipulation check"
REDUCTIONS = (
    "last", "first", "mean", "median", "95th percentile", "min", "max", "std", "growth", "rises", "least ratio",
    "depth slope",
)  # fmt: skip
"""How a series becomes one number: see :mod:`kymograph._claims.estimands`."""
_REDUCED = {
    "last": "final",
    "first": "initial",
    "min": "smallest",
    "max": "largest",
    "std": "standard deviation of",
    "rises": "share of rises of",
    "least ratio": "smallest ratio of successive values of",
    "depth slope": "slope over depth of log",
}
"""How a reduction reads before the name of its series; all others read as "mean of"."""
_LATER = ("equivalence_margin", "interaction", "kind")
"""Fields that were added later: while they are unset, a claim keeps the hash it had before."""


@dataclass(frozen=True)
class Measure:
    """One number of one run: a key of its summary, or a stored series reduced to a number.

    >>> for measure in ky.Measure("accuracy"), ky.Measure("loss", "last"), ky.Measure("norm", "growth", site="last"):
    ...     print(measure)
    accuracy
    last of loss
    growth of norm at last
    """

    name: str
    """The summary's key, or the series' name."""
    reduce: str | None = None
    """None: the summary. Otherwise how the series becomes one number, e.g. ``last`` or ``rises``."""
    site: str | None = None
    """Which site of a series that has several, or ``last``; all of them for ``depth slope``."""

    def __post_init__(self) -> None:
        if self.reduce is not None and self.reduce not in REDUCTIONS:
            raise KymographError(f"a series cannot be reduced by {self.reduce!r}; choose from {', '.join(REDUCTIONS)}")

    def __str__(self) -> str:
        suffix = "" if self.site is None else f" at {self.site}"
        return self.name if self.reduce is None else f"{self.reduce} of {self.name}{suffix}"


@dataclass(frozen=True)
class Side:
    """A measure taken in one arm, among runs with these settings.

    >>> print(ky.Side("adam", ky.Measure("loss", "last"), where={"task": "orthogonal"}))
    last of loss (adam, task orthogonal)
    """

    arm: str
    measure: Measure
    where: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the runs must have, e.g. ``{"task": "orthogonal"}``."""

    def __str__(self) -> str:
        settings = "".join(f", {name} {value}" for name, value in self.where.items())
        return f"{self.measure} ({self.arm}{settings})"


@dataclass(frozen=True)
class Check:
    """A condition for deciding a claim at all: ``quantity`` must lie within [least, most] in every seed.

    >>> fired = ky.Check("clipping fired", ky.Side("clip", ky.Measure("clip_fraction")), least=0, strict=True)
    >>> ky.Claim.compare("loss", "clip", "<", "no clip", checks=[fired]).checks[0].text
    'clipping fired'
    """

    text: str
    """What must hold, e.g. "clipping fired"."""
    quantity: Side
    least: float = -math.inf
    most: float = math.inf
    strict: bool = False
    """Whether the bounds themselves fail."""


@dataclass(frozen=True)
class Claim:
    """A prediction, paired by seed: ``left`` against ``right``, in a direction, by more than a margin.

    >>> loss = ky.Measure("final_loss")
    >>> claim = ky.Claim(
    ...     "Adam ends lower", "optimizers", "the final loss is at least 10 % lower under Adam than under SGD",
    ...     ky.Side("adam", loss), ky.Side("sgd", loss), "less", margin=1.1, scale="log ratio",
    ... )
    >>> claim.setup, claim.origin, claim.hash[:8]
    ('own', 'the author of the study', '4e8c9556')

    "greater" and "less" claim an effect beyond the margin; "not less" and "not greater" claim that there is none of
    the margin's size in the other direction, "equal" that there is none in either. On the scale "log ratio" the margin
    is a ratio above 1, otherwise it is in the measure's own units.

    With an ``interaction`` (c, d) the claim is about a difference of differences, (left - right) against (c - d), or on
    the scale "log ratio" about the ratio of left / right to c / d. `Claim.compare` is the short form.
    """

    name: str
    study: str
    setup: str = field(default="own", kw_only=True)
    """A label of your choice; it is part of the claim's key and hash."""
    text: str
    origin: str = field(default="the author of the study", kw_only=True)
    """Where the finding is stated, in our own words."""
    left: Side
    right: Side | float
    direction: Direction
    margin: float
    scale: Scale = "difference"
    alpha: float = 0.05
    checks: tuple[Check, ...] = ()
    diverged: Literal["invalid", "drop"] = "invalid"
    """What to do about a value that is not finite: leave the claim undecided (INVALID), or leave the seed out."""
    equivalence_margin: float | None = None
    """Within this, the effect counts as EQUIVALENT to none; None: within the margin."""
    interaction: tuple[Side, Side] | None = None
    """The pair (c, d): left - right is compared with c - d."""
    kind: Literal["manipulation check"] | None = None
    """Set if the claim is not a finding, but a check that the arms do to the runs what they are meant to do."""

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise KymographError(f"{self.name}: direction must be one of {', '.join(DIRECTIONS)}")
        if not self.setup or not isinstance(self.setup, str):
            raise KymographError(f"{self.name}: setup must be a label, e.g. own")
        if self.kind not in (None, MANIPULATION_CHECK):
            raise KymographError(f"{self.name}: kind must be {MANIPULATION_CHECK!r} or left out")
        if self.diverged not in ("invalid", "drop"):
            raise KymographError(f"{self.name}: diverged must be invalid or drop")
        if self.scale not in SCALES:
            raise KymographError(f"{self.name}: scale must be one of {', '.join(SCALES)}")
        self._check_margins()
        if self.interaction is not None and not isinstance(self.right, Side):
            raise KymographError(f"{self.name}: an interaction compares four quantities, but right is a number")
        if not 0 < self.alpha < 0.5:
            raise KymographError(f"{self.name}: alpha must lie between 0 and 0.5, not {self.alpha}")

    def _check_margins(self) -> None:
        none = 1.0 if self.scale == "log ratio" else 0.0
        what = "a ratio of at least 1" if self.scale == "log ratio" else "a number of at least 0"
        for name, size in (("margin", self.margin), ("equivalence_margin", self.equivalence_margin)):
            if size is not None and (not math.isfinite(size) or size < none):
                raise KymographError(f"{self.name}: {name} must be {what}, not {size}")
        if self.direction == "equal":
            if self.margin == none:
                raise KymographError(f"{self.name}: nothing can be shown equal within a margin of {self.margin:g}")
            if self.equivalence_margin is not None:
                raise KymographError(f"{self.name}: a claim of equality takes no equivalence_margin; use margin")

    @staticmethod
    def compare(
        measure: str,
        left: str,
        sign: str,
        right: str | float,
        *,
        margin: float | None = None,
        scale: Literal["ratio", "log ratio", "difference"] = "ratio",
        name: str = "",
        text: str = "",
        reduce: str | None = None,
        site: str | None = None,
        checks: Sequence[Check] = (),
        alpha: float = 0.05,
        equivalence_margin: float | None = None,
    ) -> Claim:
        """Returns a claim that compares a measure between two arms, or between an arm and a number.

        >>> ky.Claim.compare("loss", "adam", "<", "sgd", margin=1.1).text
        'loss is less in adam than in sgd, by more than a factor of 1.1'

        Args:
            measure: a key of the summary; with ``reduce`` a series.
            left: an arm.
            sign: ``<`` and ``>`` claim an effect beyond the margin, ``<=`` and ``>=`` that there is none of its size in
                the other direction, ``==`` that there is none in either.
            right: another arm, or a number.
            margin: the smallest effect that matters, as a ratio (default 1: any) or as a difference (default 0: any).
            scale: ``ratio`` (or ``log ratio``), for positive quantities, or ``difference``; what the margin is.
            name: the claim's name; default: the comparison itself.
            text: the claim in words; default: built from the other arguments.
            reduce: how a series becomes one number, e.g. ``last``.
            site: which site of a series that has several.
            checks: conditions without which the claim cannot be decided.
            alpha: the significance level.
            equivalence_margin: within this, the effect counts as equivalent to none; default: within the margin.
        """
        if sign not in SIGNS:
            raise KymographError(f"the sign of a claim must be one of {' '.join(SIGNS)}, not {sign!r}")
        ratio = named_scale(scale) == "log ratio"
        size = (1.0 if ratio else 0.0) if margin is None else float(margin)
        if ratio and size < 1:
            raise KymographError(
                f"the margin of a ratio must be at least 1, not {size:g}; for a difference, use scale='difference'"
            )
        taken = Measure(measure, reduce, site)
        against: Side | float = Side(right, taken) if isinstance(right, str) else float(right)
        words = text or _comparison_text(str(taken), left, SIGNS[sign], right, size, ratio)
        return Claim(
            name or f"{measure}: {left} {sign} {right}", "", words, Side(left, taken), against, SIGNS[sign], size,
            "log ratio" if ratio else "difference", alpha, tuple(checks), equivalence_margin=equivalence_margin,
        )  # fmt: skip

    @property
    def family(self) -> str:
        """The family in which Holm's correction is made: all findings of one study, or all its manipulation checks."""
        return self.study if self.kind is None else f"{self.study}, {self.kind}s"

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that are compared: one, two, or the four of an interaction."""
        right = (self.right,) if isinstance(self.right, Side) else ()
        return (self.left, *right, *(self.interaction or ()))

    @property
    def every_side(self) -> tuple[Side, ...]:
        """Every side that the claim rests on: those compared, then those checked."""
        return (*self.sides, *(check.quantity for check in self.checks))

    @property
    def content(self) -> dict[str, Any]:
        """All fields of the claim, ready for JSON; fields that were added later are left out while unset."""
        fields = dataclasses.asdict(self)
        content: dict[str, Any] = plain(
            {name: value for name, value in fields.items() if name not in _LATER or value is not None}
        )
        return content

    @staticmethod
    def of(content: Mapping[str, Any]) -> Claim:
        """Returns the claim with this registered content; raises ValueError if it is not a valid claim."""
        try:
            fields, right = dict(content), content["right"]
            fields["left"] = _side(fields["left"])
            fields["right"] = _side(right) if isinstance(right, dict) else float(right)
            fields["checks"] = tuple(
                Check(
                    check["text"],
                    _side(check["quantity"]),
                    float(check["least"]),  # a record's JSON spells infinite bounds "Infinity" and "-Infinity"
                    float(check["most"]),
                    check["strict"],
                )
                for check in fields["checks"]
            )
            if fields.get("interaction") is not None:
                third, fourth = fields["interaction"]
                fields["interaction"] = (_side(third), _side(fourth))
            return Claim(**fields)
        except (KeyError, TypeError, ValueError, KymographError) as error:
            raise ValueError(str(error)) from None

    @property
    def hash(self) -> str:
        """The SHA-256 of the claim's content, which is stored with the runs."""
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()


def named_scale(word: str) -> Scale:
    """Returns the scale that a user's word names; raises `KymographError` if it names none."""
    if word not in SCALE_WORDS:
        raise KymographError(f"a claim's scale is 'ratio' or 'difference', not {word!r}")
    return SCALE_WORDS[word]


def _comparison_text(what: str, left: str, direction: str, right: str | float, margin: float, ratio: bool) -> str:
    """Returns a comparison as a sentence."""
    other = f"in {right}" if isinstance(right, str) else f"{right:g}"
    size = f"a factor of {margin:g}" if ratio else f"{margin:g}"
    if direction in ("less", "greater"):
        beyond = "" if margin == (1.0 if ratio else 0.0) else f", by more than {size}"
        return f"{what} is {direction} in {left} than {other}{beyond}"
    if direction == "equal":
        return f"{what} is the same in {left} as {other}, within {size}"
    return f"{what} is {direction} in {left} than {other} by {size} or more"


def _side(content: Mapping[str, Any]) -> Side:
    return Side(content["arm"], Measure(**content["measure"]), content["where"])


def measure_name(measure: Measure, declaration: Declaration) -> str:
    """Returns a measure's display name, from the study's headline numbers, tables or series."""
    spelt = measure.name.replace("_", " ")
    if measure.reduce is None:
        named = [declaration.headlines, *declaration.tables.values()]
        return next((names[measure.name] for names in named if measure.name in names), spelt)
    series = next((display.unit for display in declaration.series if display.series == measure.name), spelt)
    site = {None: "", "last": " at the last site"}.get(measure.site, f" at {measure.site}")
    return f"{_REDUCED.get(measure.reduce, f'{measure.reduce} of')} {series}{site}"


def side_text(side: Side, declaration: Declaration) -> str:
    """Returns what is measured, in which arm, and the settings that its runs must have."""
    settings = "".join(f", {name} {value}" for name, value in side.where.items())
    return f"{measure_name(side.measure, declaration)} ({declaration.label(side.arm)}{settings})"


def with_labels(text: str, declaration: Declaration) -> str:
    """Returns a text with the names of arms replaced by their labels.

    Only names with a slash are replaced, because they cannot be ordinary words.
    """
    labels = {arm: label for arm, label in declaration.labels.items() if "/" in arm}
    if not labels:
        return text
    names = "|".join(re.escape(arm) for arm in sorted(labels, key=len, reverse=True))
    return re.sub(rf"(?<![\w/])(?:{names})(?![\w/])", lambda match: labels[match.group()], text)


def side_names(claim: Claim, declaration: Declaration) -> tuple[str, ...]:
    """Returns names that tell the compared sides apart: arms, measures, or both; four for an interaction."""
    sides = claim.sides
    arms = [declaration.label(side.arm) for side in sides]
    measures = [measure_name(side.measure, declaration) for side in sides]
    if len({side.arm for side in sides}) > 1 and len(set(arms)) == len(sides):
        names = arms
    elif len(set(measures)) == len(sides):
        names = measures
    else:
        names = [side_text(side, declaration) for side in sides]
    if isinstance(claim.right, Side):
        return tuple(names)
    return names[0] if len(arms) > 1 else arms[0], number_text(claim.right, 4)
