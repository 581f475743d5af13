"""What a claim is: a prediction about one number per seed, frozen and hashed before any run exists."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kymograph.errors import KymographError
from kymograph.runs.files import plain

Direction = Literal["greater", "less", "not less", "not greater"]
Scale = Literal["difference", "log ratio"]
DIRECTIONS = ("greater", "less", "not less", "not greater")
SCALES = ("difference", "log ratio")
SETUPS = ("script", "repaired", "own")
REDUCTIONS = ("last", "first", "mean", "median", "min", "max", "std", "growth", "rises", "depth slope")
"""How a series becomes one number: see :mod:`kymograph.claims.estimands`."""


@dataclass(frozen=True)
class Measure:
    """One number of one run: a key of its summary, or a stored series reduced to a number."""

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
        place = "" if self.site is None else f" at {self.site}"
        return self.name if self.reduce is None else f"{self.reduce} of {self.name}{place}"


@dataclass(frozen=True)
class Quantity:
    """A measure taken in one arm, among runs with these settings."""

    arm: str
    measure: Measure
    where: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the runs must have, e.g. ``{"task": "orthogonal"}``."""

    def __str__(self) -> str:
        settings = "".join(f", {name} {value}" for name, value in self.where.items())
        return f"{self.measure} ({self.arm}{settings})"


@dataclass(frozen=True)
class Check:
    """A condition for deciding a claim at all: ``quantity`` must lie within [least, most] in every seed."""

    text: str
    """What must hold, e.g. "clipping fired"."""
    quantity: Quantity
    least: float = -math.inf
    most: float = math.inf
    strict: bool = False
    """Whether the bounds themselves fail."""


@dataclass(frozen=True)
class Claim:
    """A prediction: in every seed ``left`` against ``right``, in a direction, by more than a margin.

    "greater" and "less" claim an effect beyond the margin; "not less" and "not greater" claim that there is none of
    the margin's size in the other direction. On the scale "log ratio" the margin is a ratio above 1, otherwise it is
    in the measure's own units.
    """

    name: str
    study: str
    setup: str
    """``script``: as the research script had it; ``repaired``; or ``own``."""
    text: str
    origin: str
    """Where the finding is stated, in our own words."""
    left: Quantity
    right: Quantity | float
    direction: Direction
    margin: float
    scale: Scale = "difference"
    alpha: float = 0.05
    checks: tuple[Check, ...] = ()
    diverged: Literal["invalid", "drop"] = "invalid"
    """What a value that is not finite means: the claim cannot be decided, or (declared here) the seed is left out."""

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise KymographError(f"{self.name}: direction must be one of {', '.join(DIRECTIONS)}")
        if self.setup not in SETUPS:
            raise KymographError(f"{self.name}: setup must be one of {', '.join(SETUPS)}, for it names the family")
        if self.diverged not in ("invalid", "drop"):
            raise KymographError(f"{self.name}: diverged must be invalid or drop")
        if self.scale not in SCALES:
            raise KymographError(f"{self.name}: scale must be one of {', '.join(SCALES)}")
        least = 1.0 if self.scale == "log ratio" else 0.0
        if not math.isfinite(self.margin) or self.margin < least:
            what = "a ratio of at least 1" if self.scale == "log ratio" else "a number of at least 0"
            raise KymographError(f"{self.name}: margin must be {what}, not {self.margin}")
        if not 0 < self.alpha < 0.5:
            raise KymographError(f"{self.name}: alpha must lie between 0 and 0.5, not {self.alpha}")

    @property
    def family(self) -> str:
        """The claims among which Holm's correction is made: those of one study in one set-up."""
        return f"{self.study}/{self.setup}"

    @property
    def content(self) -> dict[str, Any]:
        """Everything the claim says, as JSON can hold it."""
        return plain(dataclasses.asdict(self))

    @staticmethod
    def of(content: Mapping[str, Any]) -> Claim:
        """Returns the claim that says this, as a registration keeps it; raises ValueError if it is none."""
        try:
            fields = dict(content)
            right = fields["right"]
            fields["left"] = _quantity(fields["left"])
            fields["right"] = _quantity(right) if isinstance(right, dict) else _number(right)
            fields["checks"] = tuple(
                Check(
                    one["text"],
                    _quantity(one["quantity"]),
                    _number(one["least"]),
                    _number(one["most"]),
                    one["strict"],
                )
                for one in fields["checks"]
            )
            return Claim(**fields)
        except (KeyError, TypeError, KymographError) as error:
            raise ValueError(str(error)) from None

    @property
    def hash(self) -> str:
        """The SHA-256 of everything the claim says, which is kept with the runs."""
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()


def _quantity(content: Mapping[str, Any]) -> Quantity:
    return Quantity(content["arm"], Measure(**content["measure"]), content["where"])


def _number(value: Any) -> float:
    """Returns a number as a record's JSON spells it."""
    return float(value)  # "Infinity" and "-Infinity" included
