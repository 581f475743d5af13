"""A claim's outcome with its evidence, and a table of many."""

from __future__ import annotations

import enum
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kymograph.claims.claim import Claim
from kymograph.runs.files import plain


class Outcome(enum.StrEnum):
    """The five things a judge can say, and nothing softer."""

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


@dataclass(frozen=True)
class Checked:
    """A validity check and what it found."""

    text: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Verdict:
    """What was decided about a claim, and everything it was decided from."""

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
    """The 95 % interval of the effect (Student t)."""
    equivalence_interval: tuple[float, float] | None = None
    """The 90 % interval, which decides EQUIVALENT."""
    bca: tuple[float, float] | None = None
    """The bootstrap's 95 % interval, from ten seeds on."""
    p: float | None = None
    """The larger of the t test's and the sign-flip test's p-values, corrected over the family (Holm)."""
    p_t: float | None = None
    p_flip: float | None = None
    hedges_g: float | None = None
    superiority: tuple[float, float, float] | None = None
    """The probability that left exceeds right in a seed, with its 95 % interval."""
    tost_p: float | None = None
    """The p-value of equivalence within the margin (two one-sided tests)."""
    iqm: float | None = None
    """The interquartile mean of the differences, or the ratio it stands for."""
    improvement: float | None = None
    """The probability that a run of left exceeds any run of right, paired or not (rliable's definition)."""
    seeds_needed: int | None = None
    """Seeds for 80 % power at the effect seen, if the outcome is INCONCLUSIVE."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the runs were made with that a reader of the verdict must know, e.g. the data."""

    @property
    def n(self) -> int:
        """The number of seeds judged."""
        return len(self.points)

    def row(self) -> dict[str, Any]:
        """Returns the verdict as one row of ``judge --json``."""
        return plain(
            {
                "claim": self.claim.name,
                "study": self.claim.study,
                "setup": self.claim.setup,
                "origin": self.claim.origin,
                "verdict": str(self.outcome),
                "reason": self.reason,
                "effect": self.effect,
                "interval": self.interval,
                "p": self.p,
                "n": self.n,
                "settings": self.settings,
                "text": self.claim.text,
                "p_t": self.p_t,
                "p_flip": self.p_flip,
                "seeds_needed": self.seeds_needed,
                "points": [vars(point) for point in self.points],
                "scale": self.claim.scale,
                "registration": self.registration,
                "hash": self.claim.hash,
                "notes": self.notes,
            }
        )


@dataclass(frozen=True)
class Verdicts(Sequence[Verdict]):
    """Verdicts in the order of their claims; shows as a table in a notebook."""

    verdicts: tuple[Verdict, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

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
        """Returns the header and the cells that every view shows."""
        header = ["claim", "set-up", "origin", "verdict", "effect [95 % interval]", "p", "n", "why"]
        return header, [
            [
                verdict.claim.name,
                setup_text(verdict),
                verdict.claim.origin,
                str(verdict.outcome),
                effect_text(verdict),
                p_text(verdict.p),
                str(verdict.n),
                why_text(verdict),
            ]
            for verdict in self.verdicts
        ]

    def markdown(self) -> str:
        """Returns the table in Markdown."""
        header, rows = self.table()
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"

    def _repr_html_(self) -> str:
        header, rows = self.table()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def setup_text(verdict: Verdict) -> str:
    """Returns study, set-up and the settings that a reader must know."""
    settings = [f"{name} {value}" for name, value in verdict.settings.items()]
    return ", ".join([verdict.claim.study, verdict.claim.setup, *settings])


def p_text(p: float | None) -> str:
    """Returns a p-value with four digits, a smaller one as smaller than that, a missing one as nothing."""
    return "" if p is None or p != p else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def why_text(verdict: Verdict) -> str:
    """Returns the reason, the notes, and how the claim was registered unless it was as it should be."""
    words = [verdict.reason, *verdict.notes]
    return "; ".join([*words, *([] if verdict.registration == "registered" else [verdict.registration])])


def effect_text(verdict: Verdict) -> str:
    """Returns the effect with its interval: a ratio with a multiplication sign, a difference with its sign."""
    if verdict.effect is None:
        return ""
    ratio = verdict.claim.scale == "log ratio"
    form = (lambda value: f"{value:.3g}") if ratio else (lambda value: f"{value:+.3g}")
    text = ("×" if ratio else "") + form(verdict.effect)
    if verdict.interval is None:
        return text
    return f"{text} [{form(verdict.interval[0])}, {form(verdict.interval[1])}]"
