"""How much headline numbers vary with each source of randomness, from runs that vary one source at a time.

A run whose setting ``vary`` names a source uses its own seed for that source and one fixed seed for all others
(Bouthillier et al., arXiv:2103.03098). A source's contribution is the standard deviation over such runs. It is measured
at one value of the other sources, so if sources interact, the shares need not add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kymograph.claims.verdict import p_text
from kymograph.figures.scales import spans_decades
from kymograph.rounding import number_text
from kymograph.runs.headlines import is_number
from kymograph.runs.spec import canonical_json
from kymograph.runs.stored import StoredRun
from kymograph.statistics.multiplicity import holm
from kymograph.statistics.samples import moments
from kymograph.statistics.variances import largest_variance, sd_interval, variance_ratio

SETTING = "vary"
"""The setting that names the source."""
ALL = "all"
"""Its default, which is not stored with the runs: the seed decides everything that it decides by default."""
SPLIT = "split"
"""The source that `ALL` does not include: unless it is varied itself, the data set keeps its own split."""
ORDER = (ALL, "initialisation", "order", "feedback", SPLIT)
LEVEL = 0.05


@dataclass(frozen=True)
class SourceSpread:
    """How much one number varies with one source: its standard deviation over runs and the 95 % interval."""

    source: str
    n: int
    missing: int
    """The number of runs without a finite value."""
    sd: float
    low: float
    high: float
    idle: bool
    """Whether the source does nothing: its runs agree in every stored number."""
    share: tuple[float, float, float] | None = None
    """Its variance over that of `ALL`, with the 95 % interval; None if it is undefined."""


@dataclass(frozen=True)
class NumberSpread:
    """How much one headline number varies with each source, and which source varies it most."""

    key: str
    label: str
    log: bool
    """Whether the statistics are those of the number's natural logarithm."""
    sources: tuple[SourceSpread, ...]
    largest: str | None
    """The source with the largest standard deviation; None if fewer than two sources have an effect."""
    p: float
    """The p-value against its not being the largest, corrected over the arm's numbers (Holm); NaN if untestable."""

    @property
    def dominant(self) -> str | None:
        """The source that varies the number most; None if none clearly does."""
        return self.largest if self.p < LEVEL else None

    @property
    def title(self) -> str:
        """The name of the quantity whose standard deviations these are."""
        return f"ln {self.label}" if self.log else self.label


@dataclass(frozen=True)
class ArmSpread:
    """The headline numbers of one arm, at one choice of all other settings."""

    name: str
    """The arm's name, followed by the settings in which its runs differ."""
    numbers: tuple[NumberSpread, ...]


def has_several_sources(runs: Iterable[StoredRun]) -> bool:
    """Returns whether some arm was run with at least two sources."""
    return any(len(group.by_source) > 1 for group in _groups(runs))


def arm_spreads(
    runs: Iterable[StoredRun], headlines: Mapping[str, str], ratios: Collection[str] = ()
) -> list[ArmSpread]:
    """Returns the spread of ``headlines`` by source, for every arm of one study with at least two sources.

    Args:
        runs: finished runs; only those that differ in source and seed alone are compared.
        headlines: summary numbers, with their labels.
        ratios: summary numbers that the study's claims compare as ratios.
    """
    groups = [group for group in _groups(runs) if len(group.by_source) > 1]
    compared = [run for group in groups for members in group.by_source.values() for run in members]
    log = {key: _is_log(compared, key, ratios) for key in headlines}
    found = [ArmSpread(group.name, _numbers(group, headlines, log)) for group in groups]
    return [arm for arm in found if arm.numbers]


@dataclass(frozen=True)
class _Group:
    """Runs of one arm that differ in source and seed alone."""

    name: str
    by_source: Mapping[str, Sequence[StoredRun]]


def _groups(runs: Iterable[StoredRun]) -> list[_Group]:
    """Returns the runs by arm, other settings and code, and then by source; sources with a single run are left out."""
    found: dict[str, dict[str, tuple[dict[str, Any], dict[str, list[StoredRun]]]]] = {}
    for run in runs:
        settings = {name: value for name, value in run.config.items() if name != SETTING}
        settings |= {"study version": run.spec.version, "study source": run.spec.source}
        key = canonical_json(settings)
        _, by_source = found.setdefault(run.arm, {}).setdefault(key, (settings, {}))
        by_source.setdefault(str(run.config.get(SETTING, ALL)), []).append(run)
    groups = []
    for arm, variants in found.items():
        every = [settings for settings, _ in variants.values()]
        for settings, by_source in variants.values():
            own = [
                f"{name} {value}"
                for name, value in settings.items()
                if any(name not in other or other[name] != value for other in every)
            ]
            several = {source: by_source[source] for source in _in_order(by_source) if len(by_source[source]) > 1}
            groups.append(_Group(f"{arm} ({', '.join(own)})" if own else arm, several))
    return groups


def _in_order(sources: Iterable[str]) -> list[str]:
    return sorted(sources, key=lambda source: (ORDER.index(source) if source in ORDER else len(ORDER), source))


def _is_log(runs: Sequence[StoredRun], key: str, ratios: Collection[str]) -> bool:
    """Returns whether a number is taken on the log scale: positive, and compared as a ratio or spanning decades."""
    values = [run.summary.get(key) for run in runs]
    numbers = np.array([value for value in values if is_number(value)], dtype=np.float64)
    if not len(numbers) or numbers.min() <= 0:
        return False
    return spans_decades(numbers) or any(
        key == ratio or _proportional(values, [run.summary.get(ratio) for run in runs]) for ratio in ratios
    )


def _proportional(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Returns whether two numbers differ by a constant factor only, e.g. a norm and that norm per image."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if is_number(a) and is_number(b) and b]
    quotients = np.array([a / b for a, b in pairs], dtype=np.float64)
    # Each quotient and each stored number is rounded once.
    return len(set(pairs)) > 1 and bool(np.ptp(quotients) <= 4 * np.finfo(np.float64).eps * np.abs(quotients).max())


def _numbers(group: _Group, headlines: Mapping[str, str], log: Mapping[str, bool]) -> tuple[NumberSpread, ...]:
    idle = {source for source, runs in group.by_source.items() if _agree(runs)}
    drafts = [_number(group, key, label, log[key], idle) for key, label in headlines.items()]
    found = [number for number in drafts if number.sources]
    adjusted = holm([number.p for number in found])
    return tuple(replace(number, p=p) for number, p in zip(found, adjusted, strict=True))


def _agree(runs: Sequence[StoredRun]) -> bool:
    """Returns whether all runs store the same numbers, e.g. because backpropagation uses no feedback."""
    numbers = [{key: value for key, value in run.summary.items() if is_number(value)} for run in runs]
    return bool(numbers[0]) and all(other == numbers[0] for other in numbers)


def _number(group: _Group, key: str, label: str, log: bool, idle: Collection[str]) -> NumberSpread:
    values = {source: _values(runs, key, log) for source, runs in group.by_source.items()}
    total = values.get(ALL, [])
    sources = []
    for source, sample in values.items():
        if len(sample) < 2:
            continue
        missing = len(group.by_source[source]) - len(sample)
        ratio = variance_ratio(sample, total) if source not in (ALL, SPLIT) else (math.nan,)
        share = ratio if len(ratio) == 3 and not math.isnan(ratio[0]) else None
        spread = moments(sample)[1], *sd_interval(sample)
        sources.append(SourceSpread(source, len(sample), missing, *spread, source in idle, share))
    acting = [one.source for one in sources if one.source != ALL and not one.idle]
    if len(acting) < 2:
        return NumberSpread(key, label, log, tuple(sources), None, math.nan)
    first, p = largest_variance([values[source] for source in acting])
    return NumberSpread(key, label, log, tuple(sources), acting[first], p)


def _values(runs: Sequence[StoredRun], key: str, log: bool) -> list[float]:
    """Returns the runs' finite numbers, or their logarithms if ``log``; booleans are left out."""
    found: list[Any] = [run.summary.get(key) for run in runs]
    numbers = [float(value) for value in found if is_number(value) and not isinstance(value, bool)]
    return [math.log(value) for value in numbers] if log else numbers


def about_all(arms: Iterable[ArmSpread]) -> str:
    """Returns a description of the runs of `ALL`; empty if there are none."""
    sources = {spread.source for arm in arms for number in arm.numbers for spread in number.sources}
    if ALL not in sources:
        return ""
    rest = f"; {SPLIT} is not included, because the data set's own split is kept" if SPLIT in sources else ""
    return f"{ALL}: the seed decides everything that it decides by default{rest}."


def conclusion(number: NumberSpread) -> str:
    """Returns which source varies a number most, or that none clearly does, in words."""
    acting = [one for one in number.sources if one.source != ALL and not one.idle]
    if number.dominant is not None:
        return f"{number.dominant} varies it most (p = {p_text(number.p)})".replace("= <", "<")
    if len(acting) < 2:
        return "fewer than two sources to compare" if not acting else f"only {acting[0].source} has an effect"
    first, second = sorted(acting, key=lambda one: -one.sd)[:2]
    why = "values that do not vary cannot be tested"
    if not math.isnan(number.p):
        why = f"p = {p_text(number.p)}".replace("= <", "<")
    largest = ", ".join(f"{one.source} {number_text(one.sd)}" for one in (first, second))
    return f"no source clearly dominates ({largest}; {why})"
