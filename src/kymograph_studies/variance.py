"""How much headline numbers vary with each source of randomness: the sweeps that show it, the numbers and the table.

A run whose setting ``vary`` names a source uses its own seed for that source and one fixed seed for all others
(Bouthillier et al., arXiv:2103.03098). A source's contribution is the standard deviation over such runs. It is measured
at one value of the other sources, so if sources interact, the shares need not add up to 1.
"""

from __future__ import annotations

import math
import sys
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kymograph import Claim, KymographError, StoredRun, Study, load_study
from kymograph._claims.verdict import p_text
from kymograph._errors import did_you_mean
from kymograph._experiments.running import SweepResult, run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._pictures.scales import spans_decades
from kymograph._rounding import number_text
from kymograph._runs.spec import canonical_json
from kymograph._runs.summaries import is_number
from kymograph._statistics.intervals import moments
from kymograph._statistics.p_values import holm
from kymograph._statistics.variances import largest_variance, sd_interval, variance_ratio
from kymograph.verbs import UsageError

SETTING = "vary"
"""The setting that names the source."""
ALL = "all"
"""Its default, which is not stored with the runs: the seed decides everything that it decides by default."""
SPLIT = "split"
"""The source that `ALL` does not include: unless it is varied itself, the data set keeps its own split."""
ORDER = (ALL, "initialisation", "order", "feedback", SPLIT)
LEVEL = 0.05
HEADER = ("", "n", "sd", "95 % interval", f"share of {ALL}", "95 % interval")
NOTES = (
    "Intervals (chi-square; F for shares) and tests assume normal values. An sd of ln x of 0.1 is about 10 % of x.",
    "What varies a number most is stated if the largest sd exceeds every other one in an F test at 5 %, corrected for "
    "choosing the largest and, in each arm, for several numbers (Holm).",
)


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


@dataclass(frozen=True)
class SourceSweeps:
    """The sweeps in which one source at a time was varied, and the spread of every arm."""

    sweeps: Mapping[str, SweepResult]
    """By source, `ALL` first."""
    arms: Sequence[ArmSpread]

    @property
    def failures(self) -> int:
        """How many runs failed."""
        return sum(len(done.failures) for done in self.sweeps.values())


def vary_sources(
    reference: str,
    seeds: Sequence[int],
    options: ComputeOptions,
    *,
    arms: Sequence[str] | None = None,
    sources: Sequence[str] = (),
    fields: Mapping[str, Any] | None = None,
) -> SourceSweeps:
    """Runs a study once with all sources of variance, and once per source; returns how much each contributes.

    Args:
        reference: the study.
        seeds: the seeds of every sweep.
        options: how the sweeps are computed, and where the runs go.
        arms: names or patterns; default: the study's default arms.
        sources: some of the study's sources; default: all that it has.
        fields: any other settings.
    """
    study, fields = load_study(reference), dict(fields or {})
    offered = sources_of(study)
    for source in sources:
        if source not in offered:
            raise UsageError(f"{study.name} has no source of variance {source!r}{did_you_mean(source, offered)}")
    if SETTING in fields:
        raise UsageError(f"every source is varied in turn, so {SETTING} cannot be set; choose some with --sources")
    if len(seeds) < 2:
        raise UsageError("a standard deviation needs at least two seeds")
    if not study.headlines:
        raise KymographError(f"{study.name} declares no headline numbers, so there is no variance to show")
    sweeps = {}
    # All sources together come first, as in an ordinary sweep: the first sweep of a directory is what the study's
    # claims are registered for.
    chosen = (ALL, *(source for source in offered if source != ALL and (source in sources or not sources)))
    for number, source in enumerate(chosen, start=1):
        if not options.quiet:
            print(f"{study.name}: {SETTING} {source}, sweep {number} of {len(chosen)}", file=sys.stderr)
        varied = {} if source == ALL else {SETTING: source}
        sweeps[source] = run_sweep(reference, seeds, options, arms=arms, fields={**fields, **varied})
    runs = [run for done in sweeps.values() for run in done.store.finished]
    return SourceSweeps(sweeps, arm_spreads(runs, study.headlines, compared_as_ratios(study.claims())))


def sources_of(study: Study[Any]) -> tuple[str, ...]:
    """Returns the values that a study's setting ``vary`` can take; raises if it has no such setting."""
    hint = typing.get_type_hints(study.config_type).get(SETTING)
    options = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
    if ALL not in options:
        raise KymographError(
            f"the sources of variance of {study.name} cannot be separated: it has no setting {SETTING!r} with the "
            f"value {ALL!r}"
        )
    return options


def compared_as_ratios(claims: Iterable[Claim]) -> frozenset[str]:
    """Returns the keys of the summary numbers that claims compare on the scale "log ratio"."""
    return frozenset(
        side.measure.name
        for claim in claims
        if claim.scale == "log ratio"
        for side in claim.sides
        if side.measure.reduce is None
    )


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
    spreads = [ArmSpread(group.name, _numbers(group, headlines, log)) for group in groups]
    return [arm for arm in spreads if arm.numbers]


@dataclass(frozen=True)
class _Group:
    """Runs of one arm that differ in source and seed alone."""

    name: str
    by_source: Mapping[str, Sequence[StoredRun]]


def _groups(runs: Iterable[StoredRun]) -> list[_Group]:
    """Returns the runs by arm, other settings and code, and then by source; sources with a single run are left out."""
    variants_by_arm: dict[str, dict[str, tuple[dict[str, Any], dict[str, list[StoredRun]]]]] = {}
    for run in runs:
        settings = {name: value for name, value in run.config.items() if name != SETTING}
        settings |= {"study version": run.spec.version, "study source": run.spec.source}
        variants = variants_by_arm.setdefault(run.arm, {})
        _, by_source = variants.setdefault(canonical_json(settings), (settings, {}))
        by_source.setdefault(str(run.config.get(SETTING, ALL)), []).append(run)
    groups = []
    for arm, variants in variants_by_arm.items():
        for settings, by_source in variants.values():
            differing = [
                f"{name} {value}"
                for name, value in settings.items()
                if any(name not in other or other[name] != value for other, _ in variants.values())
            ]
            several = {source: by_source[source] for source in _in_order(by_source) if len(by_source[source]) > 1}
            groups.append(_Group(f"{arm} ({', '.join(differing)})" if differing else arm, several))
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


def _proportional(numbers: Sequence[Any], others: Sequence[Any]) -> bool:
    """Returns whether two numbers differ by a constant factor only, e.g. a norm and that norm per image."""
    pairs = [(a, b) for a, b in zip(numbers, others, strict=True) if is_number(a) and is_number(b) and b]
    quotients = np.array([a / b for a, b in pairs], dtype=np.float64)
    # Each quotient and each stored number is rounded once.
    return len(set(pairs)) > 1 and bool(np.ptp(quotients) <= 4 * np.finfo(np.float64).eps * np.abs(quotients).max())


def _numbers(group: _Group, headlines: Mapping[str, str], log: Mapping[str, bool]) -> tuple[NumberSpread, ...]:
    idle = {source for source, runs in group.by_source.items() if _agree(runs)}
    drafts = [_number(group, key, label, log[key], idle) for key, label in headlines.items()]
    varied = [number for number in drafts if number.sources]
    adjusted = holm([number.p for number in varied])
    return tuple(replace(number, p=p) for number, p in zip(varied, adjusted, strict=True))


def _agree(runs: Sequence[StoredRun]) -> bool:
    """Returns whether all runs store the same numbers, e.g. because backpropagation uses no feedback."""
    numbers = [{key: value for key, value in run.summary.items() if is_number(value)} for run in runs]
    return bool(numbers[0]) and all(other == numbers[0] for other in numbers)


def _number(group: _Group, key: str, label: str, log: bool, idle: Collection[str]) -> NumberSpread:
    values = {}
    for source, runs in group.by_source.items():
        numbers: list[Any] = [run.summary.get(key) for run in runs]
        finite = [float(number) for number in numbers if is_number(number) and not isinstance(number, bool)]
        values[source] = [math.log(number) for number in finite] if log else finite
    total = values.get(ALL, [])
    sources = []
    for source, sample in values.items():
        if len(sample) < 2:
            continue
        missing = len(group.by_source[source]) - len(sample)
        ratio = variance_ratio(sample, total) if source not in (ALL, SPLIT) else (math.nan,)
        share = ratio if len(ratio) == 3 and not math.isnan(ratio[0]) else None
        sd = moments(sample)[1]
        sources.append(SourceSpread(source, len(sample), missing, sd, *sd_interval(sample), source in idle, share))
    acting = [spread.source for spread in sources if spread.source != ALL and not spread.idle]
    if len(acting) < 2:
        return NumberSpread(key, label, log, tuple(sources), None, math.nan)
    first, p = largest_variance([values[source] for source in acting])
    return NumberSpread(key, label, log, tuple(sources), acting[first], p)


def about_all(arms: Iterable[ArmSpread]) -> str:
    """Returns a description of the runs of `ALL`; empty if there are none."""
    sources = {spread.source for arm in arms for number in arm.numbers for spread in number.sources}
    if ALL not in sources:
        return ""
    rest = f"; {SPLIT} is not included, because the data set's own split is kept" if SPLIT in sources else ""
    return f"{ALL}: the seed decides everything that it decides by default{rest}."


def conclusion(number: NumberSpread) -> str:
    """Returns which source varies a number most, or that none clearly does, in words."""
    acting = [spread for spread in number.sources if spread.source != ALL and not spread.idle]
    if number.dominant is not None:
        return f"{number.dominant} varies it most (p = {p_text(number.p)})".replace("= <", "<")
    if len(acting) < 2:
        return "fewer than two sources to compare" if not acting else f"only {acting[0].source} has an effect"
    two = sorted(acting, key=lambda spread: -spread.sd)[:2]
    why = "values that do not vary cannot be tested"
    if not math.isnan(number.p):
        why = f"p = {p_text(number.p)}".replace("= <", "<")
    largest = ", ".join(f"{spread.source} {number_text(spread.sd)}" for spread in two)
    return f"no source clearly dominates ({largest}; {why})"


def table(arms: Sequence[ArmSpread]) -> str:
    """Returns a block per arm and number: a row per source, and which varies the number most."""
    if not arms:
        return "No two sources have runs to compare."
    rows = [HEADER, *(_row(spread) for arm in arms for number in arm.numbers for spread in number.sources)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    lines = []
    for arm in arms:
        lines += [arm.name, line(HEADER)]
        for number in arm.numbers:
            lines += [f"{number.title}: {conclusion(number)}", *(line(_row(spread)) for spread in number.sources)]
        lines.append("")
    first = f"sd over runs in which one source follows the seed and the others are fixed. {about_all(arms)}".rstrip()
    return "\n".join([*lines, first, *NOTES])


def _row(spread: SourceSpread) -> tuple[str, ...]:
    n = f"{spread.n} of {spread.n + spread.missing}" if spread.missing else str(spread.n)
    if spread.idle:
        return f"  {spread.source}", n, "0", "does nothing: all runs agree", "", ""
    interval = f"[{number_text(spread.low)}, {number_text(spread.high)}]"
    share, *ends = ("", "", "") if spread.share is None else map(_percent, spread.share)
    return f"  {spread.source}", n, number_text(spread.sd), interval, share, f"[{', '.join(ends)}]" if share else ""


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %" if part < 0.1 else f"{100 * part:.0f} %"
