"""Conditions on runs, and their order: by identity, settings, summary numbers and the last values of series.

    lr=0.1   lr<=0.1   task!=identity     settings
    accuracy>0.9                          a summary number
    loss<0.5   output_norm/layers.3>10    the last value of a series, at a site if it has several
    seed>=10   seconds>60                 what is known about every run

A name that means several things, with different values, is refused; ``setting/NAME``, ``summary/NAME`` and
``series/NAME`` say which is meant, as in the columns of an exported table.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kymograph._errors import KymographError, did_you_mean
from kymograph._runs.record import RunSeries

if TYPE_CHECKING:
    from kymograph._runs.listing import NamedRun

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ABSENT = object()
"""Stands for the value of a run that has none. No condition holds for it."""
_OWN: Mapping[str, Callable[[NamedRun], Any]] = {
    "study": lambda run: run.study,
    "arm": lambda run: run.arm,
    "seed": lambda run: run.seed,
    "id": lambda run: run.id,
    "status": lambda run: run.status,
    "diverged_at": lambda run: _ABSENT if not (run.stored and run.stored.divergence) else run.stored.divergence.step,
    "seconds": lambda run: None if run.stored is None else run.stored.seconds,
    "written": lambda run: run.stored.written or None if run.stored is not None else None,
    "version": lambda run: None if run.spec is None else run.spec.version,
    "source": lambda run: None if run.spec is None else run.spec.source,
}
"""What is known about every run, whatever its study: its time is ``seconds``, and when it was stored ``written``."""
_IN_EVERY_ROW = ("study", "arm", "seed", "status", "diverged_at")
"""What a table of runs shows anyway."""


@dataclass(frozen=True)
class Condition:
    """A condition on one value of a run.

    >>> str(Condition("lr", "<=", 0.1)), Condition("lr", "<=", 0.1).holds(0.03), Condition("lr", "<=", 0.1).holds(None)
    ('lr<=0.1', True, False)
    """

    name: str
    sign: str
    value: Any
    text: str = ""
    """How the value was written, with which texts are compared: an arm may be called ``1``."""

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.value}"

    @property
    def orders(self) -> bool:
        """Whether it asks for more or less, which only numbers or texts can be."""
        return self.sign not in ("=", "!=")

    def holds(self, value: Any) -> bool:
        """Returns whether a run's value meets the condition; a value of another type is neither more nor less."""
        if value is _ABSENT or (self.orders and not self.can_order(value)):
            return False
        wanted = (self.text or self.value) if isinstance(value, str) else self.value
        return _SIGNS[self.sign](value, wanted)

    def can_order(self, value: Any) -> bool:
        """Returns whether a run's value is more, less or the same as that of the condition."""
        if isinstance(value, str):
            return bool(self.text) or isinstance(self.value, str)
        return isinstance(value, int | float) and isinstance(self.value, int | float)


def split_condition(text: str) -> tuple[str, str, str] | None:
    """Returns the name, the sign and the value in the text of a condition; None if it has no such parts.

    >>> split_condition("lr <= 0.1"), split_condition("task=a=b"), split_condition("lr")
    (('lr', '<=', '0.1'), ('task', '=', 'a=b'), None)
    """
    found = re.fullmatch(r"\s*([^=<>!]+?)\s*(<=|>=|!=|==|=|<|>)\s*(?![<>=])(.*)", text, re.DOTALL)
    return None if found is None else (found[1], "=" if found[2] == "==" else found[2], found[3])


@dataclass(frozen=True)
class Selection:
    """The runs that meet some conditions, in the order asked for."""

    runs: Sequence[NamedRun]
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the conditions and the order are about: by title, the values by the run's id."""
    last: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The last values of series among them, by name and by the run's id."""
    unread: Sequence[str] = ()
    """A sentence for each run whose series are damaged, so that their last values are unknown."""


@dataclass(frozen=True)
class _Reading:
    """What a name means: its title in a table, and how it is read from a run."""

    title: str
    of: Callable[[NamedRun], Any]


def select_runs(
    runs: Sequence[NamedRun],
    conditions: Sequence[Condition] = (),
    sort: str | None = None,
    descending: bool = False,
    among: Sequence[NamedRun] | None = None,
) -> Selection:
    """Returns the runs that meet all conditions, sorted by one of their values.

    Runs without that value come last. The sequence of runs with the same value is kept.

    Series are read only if a name is neither known about every run nor that of a setting or a summary number, and then
    only those of the runs that meet all other conditions: whole files are read, and their checksums checked.

    Args:
        runs: those to choose from.
        conditions: what to choose.
        sort: the name of a value.
        descending: whether the largest come first.
        among: the runs in which a name must be found; default: ``runs``.
    """
    known = runs if among is None else among
    names = dict.fromkeys([*(condition.name for condition in conditions), *([] if sort is None else [sort])])
    readings = {name: reading for name in names if (reading := _stored_reading(known, name)) is not None}
    chosen = list(runs)
    for condition in conditions:
        if condition.name in readings:
            chosen = _meeting(chosen, condition, readings[condition.name].of)
    wanted = [name for name in names if name not in readings]
    last, unread = _last_values(chosen, wanted) if wanted else ({}, [])
    for name in wanted:
        readings[name] = _Reading(f"{name} (last)", functools.partial(_value_of, last[name]))
    for condition in conditions:
        if condition.name in wanted:
            chosen = _meeting(chosen, condition, readings[condition.name].of)
    if sort is not None:
        chosen = _sorted(chosen, readings[sort], descending)
    columns = {
        reading.title: {run.id: value for run in chosen if (value := reading.of(run)) is not _ABSENT}
        for name, reading in readings.items()
        if name not in _IN_EVERY_ROW
    }
    return Selection(chosen, columns, last, unread)


def _value_of(values: Mapping[str, float], run: NamedRun) -> Any:
    return values.get(run.id, _ABSENT)


def _meeting(runs: Sequence[NamedRun], condition: Condition, of: Callable[[NamedRun], Any]) -> list[NamedRun]:
    values = [of(run) for run in runs]
    given = [value for value in values if value is not _ABSENT and value is not None]
    if condition.orders and given and not any(map(condition.can_order, given)):
        raise KymographError(
            f"{condition.name} is {given[0]!r}, which is neither more nor less than {condition.value!r}; ask for it "
            f"with = or !="
        )
    return [run for run, value in zip(runs, values, strict=True) if condition.holds(value)]


def _sorted(runs: Sequence[NamedRun], by: _Reading, descending: bool) -> list[NamedRun]:
    from kymograph._runs.listing import STATUSES

    def key(value: Any) -> tuple[int, float, str]:
        if isinstance(value, int | float):
            return 0, value, ""
        return (1, STATUSES.index(value), "") if by.title == "status" else (1, 0.0, str(value))

    valued = [(run, value) for run in runs if (value := by.of(run)) is not _ABSENT and value is not None]
    found = [run for run, value in sorted(valued, key=lambda pair: key(pair[1]), reverse=descending)]
    ids = {run.id for run in found}
    return [*found, *(run for run in runs if run.id not in ids)]


def _stored_reading(runs: Sequence[NamedRun], name: str) -> _Reading | None:
    """Returns what a name means if it takes no series to know it; raises if it means several things that differ."""
    kind, _, rest = name.partition("/")
    explicit = _kinds(runs, rest) if kind in ("setting", "summary") else {}
    if kind in explicit:
        return _Reading(name, explicit[kind])
    found = _kinds(runs, name)
    if not found:
        return None
    readings = list(found.values())
    if len(found) > 1 and any(readings[0](run) != other(run) for run in runs for other in readings[1:]):
        ways = [f"{kind}/{name}" for kind in found if kind != "own"]
        own = f" or what every run has, its {name}, which has an option of its own" if "own" in found else ""
        raise KymographError(f"{name!r} means several things that differ in these runs; write {' or '.join(ways)}{own}")
    return _Reading(name, readings[0])


def _kinds(runs: Sequence[NamedRun], name: str) -> dict[str, Callable[[NamedRun], Any]]:
    """Returns the kinds of values that have a name in some run, each with how it is read."""
    kinds: dict[str, Callable[[NamedRun], Any]] = {}
    if name in _OWN:
        kinds["own"] = _OWN[name]
    if any(name in run.settings for run in runs):
        kinds["setting"] = lambda run: run.settings.get(name, _ABSENT)
    if any(name in run.stored.summary for run in runs if run.stored is not None):
        kinds["summary"] = lambda run: _number(run.stored.summary.get(name) if run.stored is not None else None)
    return kinds


def _number(value: Any) -> Any:
    """Returns a number, or that there is none: a missing one is stored as None or NaN."""
    return _ABSENT if value is None or (isinstance(value, float) and math.isnan(value)) else value


def _last_values(runs: Sequence[NamedRun], names: Sequence[str]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Returns the last values of series, by name and run, and what is wrong with series that cannot be read.

    Raises if runs have series but none has one of such a name.
    """
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    sites: dict[str, set[str]] = {}
    unread = []
    for run in runs:
        if run.stored is None or not run.stored.has_results:
            continue
        try:
            series = run.stored.read_series()
        except KymographError as error:
            unread.append(str(error))
            continue
        for title, entry in series.items():
            sites.setdefault(title, set()).update(entry.sites or ())
        for name in names:
            value = _last(series, name)
            if value is not None:
                values[name][run.id] = value
    for name, found in values.items():
        if sites and not found:
            _check_measured(runs, name, sites)
    return values, unread


def _check_measured(runs: Sequence[NamedRun], name: str, sites: Mapping[str, set[str]]) -> None:
    """Raises unless a name refers to a series, and to one of its sites if it names one."""
    series = [(title, site) for title, site in _series_and_sites(name) if title in sites]
    if any(site is None or site in sites[title] for title, site in series):
        return  # it was measured, and was NaN
    for title, site in series:
        if sites[title] and site is not None:
            raise KymographError(f"{title} was not measured at {site!r}{did_you_mean(site, sites[title])}")
    summaries = {key for run in runs if run.stored is not None for key in run.stored.summary}
    options = {*_OWN, *summaries, *(setting for run in runs for setting in run.settings), *sites}
    raise KymographError(f"no run has a setting, a summary number or a series {name!r}{did_you_mean(name, options)}")


def _last(series: Mapping[str, RunSeries], name: str) -> float | None:
    """Returns the last value of the series that a name refers to; None if the run has no such value."""
    for title, site in _series_and_sites(name):
        entry = series.get(title)
        if entry is None or (site is not None and site not in (entry.sites or ())):
            continue
        if site is None and len(entry.sites or ()) > 1:
            assert entry.sites is not None
            raise KymographError(
                f"{name} was measured at {len(entry.sites)} sites; name one of them, e.g. {name}/{entry.sites[0]}"
            )
        if not len(entry.value):
            return None
        row = entry.value[-1]
        value = float(row if entry.sites is None else row[0 if site is None else entry.sites.index(site)])
        return None if math.isnan(value) else value
    return None


def _series_and_sites(name: str) -> Iterator[tuple[str, str | None]]:
    """Yields the series and the site that a name may refer to: both can contain a slash.

    >>> list(_series_and_sites("train/loss"))
    [('train/loss', None), ('train', 'loss')]
    """
    text = name.removeprefix("series/")
    yield text, None
    for index, letter in enumerate(text):
        if letter == "/":
            yield text[:index], text[index + 1 :]
