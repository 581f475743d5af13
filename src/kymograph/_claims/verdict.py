"""A claim's outcome with its evidence, and a table of many verdicts."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kymograph._claims.claim import Claim
from kymograph._io.writing import plain
from kymograph._rounding import estimate_text
from kymograph._runs.storable import INFINITIES
from kymograph._runs.tables import import_pandas, import_xarray
from kymograph._wording import counted, html_table, markdown_table

INTERIM = "interim"
"""How a verdict is marked for which registered seeds are still missing."""


class Outcome(enum.StrEnum):
    """The five possible outcomes of a claim.

    >>> [str(outcome) for outcome in ky.Outcome]
    ['SUPPORTED', 'REFUTED', 'EQUIVALENT', 'INCONCLUSIVE', 'INVALID']
    """

    SUPPORTED = "SUPPORTED"
    REFUTED = "REFUTED"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


@dataclass(frozen=True)
class Point:
    """One seed's evidence: the two numbers that are compared, and their difference (or the log of their ratio)."""

    seed: int
    left: float
    right: float
    value: float
    parts: tuple[float, ...] = ()
    """The four numbers of an interaction, of which ``left`` and ``right`` are the differences (or the ratios)."""

    def row(self) -> dict[str, Any]:
        """Returns the seed as ``judge --json`` prints it."""
        fields = {"seed": self.seed, "left": self.left, "right": self.right, "value": self.value}
        return {**fields, "parts": self.parts} if self.parts else fields


@dataclass(frozen=True)
class Checked:
    """A validity check and what it found."""

    text: str
    passed: bool
    found: str


@dataclass(frozen=True, repr=False)
class Verdict:
    """What was decided about a claim, with all of its evidence.

    >>> verdict = ky.judge("runs")[0]
    >>> verdict.outcome is ky.Outcome.SUPPORTED, verdict.registration, verdict.effect < 1 / 1.1
    (True, 'registered', True)
    >>> verdict.points[0].seed, verdict.interval[0] < verdict.effect < verdict.interval[1]
    (42, True)
    """

    claim: Claim
    outcome: Outcome
    reason: str
    registration: str
    """``registered``, ``changed after runs existed``, or ``post hoc``."""
    points: tuple[Point, ...] = ()
    checks: tuple[Checked, ...] = ()
    notes: tuple[str, ...] = ()
    """What else a reader must know, e.g. which planned seeds are missing."""
    effect: float | None = None
    """The mean difference, or the ratio of geometric means."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the effect (Student t); under a sequential design it holds over all looks."""
    equivalence_interval: tuple[float, float] | None = None
    """The interval of level 1 - 2 alpha: it lies within the margin if the t test alone would show equivalence."""
    bca: tuple[float, float] | None = None
    """The bootstrap's 95 % interval; None below ten seeds."""
    p: float | None = None
    """The larger of the t test's and the sign-flip test's p-values, corrected over the family (Holm)."""
    p_t: float | None = None
    """Student's p-value, not corrected."""
    p_flip: float | None = None
    """The exact sign-flip test's p-value, not corrected."""
    hedges_g: float | None = None
    superiority: tuple[float, float, float] | None = None
    """The probability that left exceeds right in a seed, with its 95 % interval."""
    tost_p: float | None = None
    """Student's p-value of equivalence within the margin (two one-sided tests), not corrected."""
    iqm: float | None = None
    """The interquartile mean of the differences, or of the log-ratios, as a ratio."""
    improvement: float | None = None
    """The probability that a run of left exceeds any run of right, paired or not (rliable's definition)."""
    seeds_needed: int | None = None
    """Seeds for 80 % power at the effect seen, if the outcome is INCONCLUSIVE."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that a reader of the verdict must know, e.g. the data."""
    p_zero: float | None = None
    """The p-value that there is no effect: both tests, two-sided, corrected."""
    p_margin: float | None = None
    """The p-value that the effect is not beyond the margin in the claimed direction: both tests, corrected."""
    p_equivalence: float | None = None
    """The p-value that the effect is at least the equivalence margin: both tests, corrected; decides EQUIVALENT."""
    tost_flip_p: float | None = None
    """The sign-flip test's p-value of equivalence, not corrected."""
    pairing_gain: float | None = None
    """How many times wider the 95 % interval would be without pairing."""
    failing_seeds: tuple[int, ...] | None = None
    """Seeds beyond the margin that a claim of absence allows; None for a claim of an effect."""
    failing_rate_bound: float | None = None
    """The exact upper bound on the rate of such seeds, at level 1 - alpha."""
    family_size: int | None = None
    """How many claims share the level, including those that are not judged here."""
    registered: Mapping[str, Any] = field(default_factory=dict)
    """The registration that the claim rests on, e.g. its digest; empty if there is none."""
    setup: str = ""
    """The claim's label; another one if it is about reference settings that its runs do not have."""
    interval_level: float = 0.95
    """The level of the interval at this look."""
    equivalence_level: float | None = None
    """The level of the interval that lies within the margin if and only if the t test shows equivalence."""

    def __repr__(self) -> str:
        numbers = f"; {effect_text(self)}, p {decisive_p(self) or 'missing'}" if self.effect is not None else ""
        status = "" if self.registration == "registered" else f"; {self.registration}"
        return f"<{self.outcome}: {self.claim.name}{numbers}, n {self.n}; {self.reason}{status}>"

    def _repr_html_(self) -> str:
        header, (row,) = Verdicts((self,)).table()
        checks = [
            ("check", f"{check.text}: {'passed' if check.passed else 'failed'}, {check.found}") for check in self.checks
        ]
        return html_table(("", ""), [("claimed", self.claim.text), *zip(header, row, strict=True), *checks])

    @property
    def is_interim(self) -> bool:
        """Whether registered seeds were still missing when the claim was judged."""
        return re.search(rf", {INTERIM}: \d+ of \d+ registered seeds$", self.registration) is not None

    @property
    def n(self) -> int:
        """The number of seeds judged."""
        return len(self.points)

    def row(self) -> dict[str, Any]:
        """Returns the verdict as one row of ``judge --json``."""
        claim = self.claim
        row: dict[str, Any] = plain(
            {
                "claim": claim.name,
                "study": claim.study,
                "setup": self.setup,
                "claimed_setup": claim.setup,
                "kind": claim.kind or "finding",
                "origin": claim.origin,
                "verdict": str(self.outcome),
                "reason": self.reason,
                "effect": self.effect,
                "interval": self.interval,
                "interval_level": self.interval_level,
                "p": self.p,
                "n": self.n,
                "settings": self.settings,
                "text": claim.text,
                "direction": claim.direction,
                "scale": claim.scale,
                "margin": claim.margin,
                "equivalence_margin": claim.equivalence_margin,
                "alpha": claim.alpha,
                "family": claim.family,
                "family_size": self.family_size,
                "p_t": self.p_t,
                "p_flip": self.p_flip,
                "p_zero": self.p_zero,
                "p_margin": self.p_margin,
                "p_equivalence": self.p_equivalence,
                "tost_p": self.tost_p,
                "tost_flip_p": self.tost_flip_p,
                "equivalence_interval": self.equivalence_interval,
                "equivalence_level": self.equivalence_level,
                "bca": self.bca,
                "hedges_g": self.hedges_g,
                "iqm": self.iqm,
                "superiority": self.superiority,
                "improvement": self.improvement,
                "pairing_gain": self.pairing_gain,
                "failing_seeds": self.failing_seeds,
                "failing_rate_bound": self.failing_rate_bound,
                "seeds_needed": self.seeds_needed,
                "checks": [vars(check) for check in self.checks],
                "points": [point.row() for point in self.points],
                "registration": self.registration,
                "registered": self.registered,
                "hash": claim.hash,
                "notes": self.notes,
            }
        )
        return row


@dataclass(frozen=True, repr=False)
class Verdicts(Sequence[Verdict]):
    """Verdicts in the order of their claims; shows as a table in a notebook.

    >>> verdicts = ky.judge("runs")
    >>> len(verdicts), verdicts[0].outcome
    (1, <Outcome.SUPPORTED: 'SUPPORTED'>)
    >>> verdicts.rows()[0]["claim"], verdicts.markdown().splitlines()[0][:20]
    ('sharpness: warmup < constant', '| claim | set-up | o')
    """

    verdicts: tuple[Verdict, ...]
    never_run: tuple[str, ...] = ()
    """Names of the study's claims whose arms were never run; they share the level all the same."""
    without_runs: tuple[str, ...] = ()
    """Names of the user's own claims that no run fits."""

    def __getitem__(self, index: Any) -> Any:
        return self.verdicts[index]

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per verdict."""
        return [verdict.row() for verdict in self.verdicts]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Returns the header and the rows that every view shows."""
        header = ["claim", "set-up", "origin", "verdict", "effect [95 % interval]", "p", "n", "why"]
        return header, [
            [
                verdict.claim.name,
                setup_text(verdict),
                verdict.claim.origin,
                str(verdict.outcome),
                effect_text(verdict),
                decisive_p(verdict),
                str(verdict.n),
                why_text(verdict),
            ]
            for verdict in self.verdicts
        ]

    def markdown(self) -> str:
        """Returns the table in Markdown."""
        return markdown_table(*self.table())

    def to_pandas(self) -> Any:
        """Returns a table with one row per verdict; see `verdict_frame`."""
        return verdict_frame(self.verdicts)

    def to_xarray(self) -> Any:
        """Returns an ``xarray.Dataset`` over claim and seed: the numbers that were compared; see `verdict_dataset`."""
        return verdict_dataset(self.verdicts)

    def __repr__(self) -> str:
        outcomes = {str(outcome): sum(verdict.outcome == outcome for verdict in self) for outcome in Outcome}
        marks = {
            INTERIM: sum(verdict.is_interim for verdict in self),
            "post hoc": sum("post hoc" in verdict.registration for verdict in self),
        }
        texts = [", ".join(f"{count:,} {word}" for word, count in by.items() if count) for by in (outcomes, marks)]
        title = counted(len(self), "verdict") + "".join(
            f"{mark} {text}" for mark, text in zip(":;", texts, strict=True) if text
        )
        return "\n".join([f"<{title}>", *map(repr, self.verdicts)])

    def _repr_html_(self) -> str:
        header, rows = self.table()
        return html_table(tuple(header), [tuple(row) for row in rows])


def setup_text(verdict: Verdict) -> str:
    """Returns study, set-up and the settings that a reader must know."""
    return ", ".join([verdict.claim.study, *_setup_and_settings(verdict)])


def settings_text(verdict: Verdict) -> str:
    """Returns set-up and settings like `setup_text`, without the study and the settings in the claim's name."""
    stated = verdict.claim.name.rpartition(" (")[2].removesuffix(")").split(", ")
    return ", ".join(_setup_and_settings(verdict, stated))


def _setup_and_settings(verdict: Verdict, stated: Sequence[str] = ()) -> list[str]:
    kind = [verdict.claim.kind] if verdict.claim.kind is not None else []
    settings = [f"{name} {value}" for name, value in verdict.settings.items()]
    return [*kind, verdict.setup, *(text for text in settings if text not in stated)]


def p_text(p: float | None) -> str:
    """Returns a p-value with four decimals, ``< 0.0001`` below that; empty if it is missing."""
    return "" if p is None or p != p else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def decisive_p(verdict: Verdict) -> str:
    """Returns the p-value that the verdict rests on, and what it tests unless that is the claim's direction.

    An undecided claim has the p-value of its direction, which is above alpha: 1 for any effect between zero and the
    margin. That an effect exists all the same decides nothing; the reason states it, with its own p-value.
    """
    if verdict.outcome == Outcome.EQUIVALENT and verdict.p_equivalence is not None:
        return f"{p_text(verdict.p_equivalence)} (equivalence)"
    return p_text(verdict.p)


def why_text(verdict: Verdict) -> str:
    """Returns the reason, the notes, and the registration status unless it is ``registered``."""
    status = [] if verdict.registration == "registered" else [verdict.registration]
    return "; ".join([verdict.reason, *verdict.notes, *status])


def effect_text(verdict: Verdict, *, typeset: bool = False) -> str:
    """Returns the effect with its interval: a ratio with a multiplication sign, a difference with its sign."""
    if verdict.effect is None:
        return ""
    ratio = verdict.claim.scale == "log ratio"
    limits = deciding_limits(verdict.claim)
    text = estimate_text(verdict.effect, verdict.interval, limits=limits, signed=not ratio, typeset=typeset)
    return f"×{text}" if ratio else text


def deciding_limits(claim: Claim) -> list[float]:
    """Returns the limits that decide the verdict: the value of no effect, and both ends of each margin."""
    ratio = claim.scale == "log ratio"
    limits = [1.0 if ratio else 0.0]
    for margin in (claim.margin, claim.equivalence_margin):
        if margin:
            limits += [margin, 1 / margin] if ratio else [margin, -margin]
    return limits


_NESTED = ("points", "checks", "registered", "settings", "notes", "failing_seeds")
_INTERVALS = ("interval", "equivalence_interval", "bca")
_SUPERIORITY = ("superiority", "superiority_low", "superiority_high")


def verdict_frame(verdicts: Sequence[Verdict]) -> Any:
    """Returns a pandas table with one row per verdict: claim, outcome, effect, interval ends, p-values and texts.

    Settings are columns ``setting/NAME``. Fields with many values per verdict, such as its seeds, are in
    `verdict_dataset` and in ``verdict.points``.
    """
    rows = []
    for verdict in verdicts:
        row: dict[str, Any] = {}
        for name, value in verdict.row().items():
            if name in _INTERVALS:
                low, high = value if value is not None else (None, None)
                row |= {f"{name}_low": _number(low), f"{name}_high": _number(high)}
            elif name == "superiority":
                row |= dict(zip(_SUPERIORITY, value if value is not None else (None,) * 3, strict=True))
            elif name not in _NESTED:
                row[name] = _number(value)
        row["notes"] = "; ".join(verdict.notes)
        row |= {f"setting/{name}": value for name, value in verdict.settings.items()}
        rows.append(row)
    return import_pandas().DataFrame(rows)


def _number(value: Any) -> Any:
    """Returns an infinity that JSON spells as a string as a float; any other value unchanged."""
    return INFINITIES.get(value, value) if isinstance(value, str) else value


def verdict_dataset(verdicts: Sequence[Verdict]) -> Any:
    """Returns an ``xarray.Dataset`` over claim and seed: each seed's two numbers and difference, and each verdict.

    ``left``, ``right`` and ``value`` have dimensions (claim, seed), with NaN where a claim has no such seed; the other
    variables, ``effect``, ``low``, ``high``, ``p`` and ``verdict``, have dimension (claim,).
    """
    xarray = import_xarray()
    seeds = list(dict.fromkeys(point.seed for verdict in verdicts for point in verdict.points))
    column = {seed: position for position, seed in enumerate(seeds)}
    numbers = {name: np.full((len(verdicts), len(seeds)), np.nan) for name in ("left", "right", "value")}
    for row, verdict in enumerate(verdicts):
        for point in verdict.points:
            for name, values in numbers.items():
                values[row, column[point.seed]] = getattr(point, name)
    ends = [verdict.interval or (np.nan, np.nan) for verdict in verdicts]
    each = {
        "effect": [np.nan if verdict.effect is None else verdict.effect for verdict in verdicts],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
        "p": [np.nan if verdict.p is None else verdict.p for verdict in verdicts],
        "verdict": [str(verdict.outcome) for verdict in verdicts],
    }
    variables = {name: (("claim", "seed"), values) for name, values in numbers.items()}
    names = {"claim": [verdict.claim.name for verdict in verdicts], "seed": seeds}
    study = ("claim", [verdict.claim.study for verdict in verdicts])
    return xarray.Dataset(
        {**variables, **{name: ("claim", values) for name, values in each.items()}}, coords={**names, "study": study}
    )
