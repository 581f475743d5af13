"""Many runs as arrays: axes always in the order (arm, seed, step, site), missing values NaN.

store = Store.open("runs")
grad_norm = store.series("grad_norm")          # axes (arm, seed, step)
grad_norm.sel(arm="extreme/clip").values       # (seed, step)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from kymograph._errors import KymographError, did_you_mean
from kymograph._io.files import matching
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import Declaration, read_declaration
from kymograph._runs.history import current_code
from kymograph._runs.locating import find_runs, has_ended, without_copies
from kymograph._runs.spec import RunSpec, slug
from kymograph._runs.steps import aligned
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tables import import_pandas, import_xarray, series_frame, summary_frame
from kymograph._runs.thin_run import stored_run
from kymograph._wording import html_table

if TYPE_CHECKING:
    from kymograph._runs.directory import Directory


@dataclass(frozen=True)
class LabelledArray:
    """A measured quantity over many runs, with the labels of each axis; absent entries are NaN.

    >>> loss = ky.Store.open("runs").series("loss")
    >>> loss.axes, loss.shape
    (('arm', 'seed', 'step'), (2, 10, 3))
    >>> loss.sel(arm="warmup", seed=42).values.shape     # a curve
    (3,)
    """

    name: str
    values: np.ndarray  # (arm, seed, step[, site]), without the axes that `sel` has fixed
    axes: tuple[str, ...]
    labels: Mapping[str, tuple[Any, ...]]
    sites_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The sites that some run of each arm has, in the order of its network; the others do not exist there."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=True if copy else None)

    def sel(self, **chosen: Any) -> LabelledArray:
        """Returns the part at the named labels, e.g. ``sel(arm="plain", seed=42)``; those axes are dropped."""
        array = self
        for axis, label in chosen.items():
            if axis not in array.axes:
                raise KymographError(f"{self.name} has no axis {axis!r}{did_you_mean(axis, array.axes)}")
            if label not in array.labels[axis]:
                labels = map(str, array.labels[axis][:12])
                raise KymographError(f"{self.name} has no {axis} {label!r}{did_you_mean(str(label), labels)}")
            array = replace(
                array,
                values=np.take(array.values, array.labels[axis].index(label), axis=array.axes.index(axis)),
                axes=tuple(name for name in array.axes if name != axis),
                labels={name: labels for name, labels in array.labels.items() if name != axis},
            )
        return array

    def to_pandas(self) -> Any:
        """Returns a long table: a column per axis, and a column of values named after the quantity."""
        pandas = import_pandas()
        column = self.name if self.name not in self.axes else "value"
        grids = np.indices(self.shape).reshape(len(self.axes), self.values.size)  # (axes, values)
        columns = {
            axis: np.array(self.labels[axis], dtype=None if axis in ("seed", "step") else object)[positions]
            for axis, positions in zip(self.axes, grids, strict=True)
        }
        return pandas.DataFrame({**columns, column: self.values.reshape(-1)})

    def to_xarray(self) -> Any:
        """Returns an ``xarray.DataArray`` with the axes as dimensions and their labels as coordinates."""
        coordinates = {axis: list(self.labels[axis]) for axis in self.axes}
        return import_xarray().DataArray(self.values, dims=self.axes, coords=coordinates, name=self.name)

    def __repr__(self) -> str:
        lines = [f"<{self.name}: {', '.join(f'{axis} {len(self.labels[axis])}' for axis in self.axes)}>"]
        for axis in self.axes:
            labels = self.labels[axis]
            shown = ", ".join(map(str, labels)) if len(labels) <= 8 else f"{labels[0]} … {labels[-1]}"
            lines.append(f"  {axis}: {shown}")
        return "\n".join(lines)


class Store:
    """A set of stored runs; opened from a directory, or returned by ``kymograph.run``.

    >>> store = ky.Store.open("runs").select(arms=["warmup"])
    >>> store.series("loss").shape, store.summary("sharpness").shape     # labelled arrays over arms and seeds
    ((1, 10, 3), (1, 10))
    >>> store[0].arm, len(store), len(store.failed)
    ('warmup', 10, 0)
    """

    def __init__(self, runs: Iterable[StoredRun], root: Path | None = None, directory: Directory | None = None) -> None:
        """Makes a store of ``runs`` below ``root``; ``directory`` is what was read of it already."""
        self.runs: tuple[StoredRun, ...] = tuple(runs)
        self.root = root
        if directory is not None:
            self.directory = directory

    @staticmethod
    def open(root: str | Path) -> Store:
        """Reads every ended run below ``root``, sorted by study, arm (as declared) and seed."""
        path = Path(root)
        located = find_runs(path)
        if located.unreadable:
            raise KymographError(located.unreadable[0])
        runs, _ = without_copies([stored_run(directory) for directory in located.directories], ())
        if not runs:
            raise KymographError(f"{path} contains no completed run; make some with `kymograph run STUDY --dir {path}`")
        return Store(in_order(runs, read_declarations(path)), path)

    @staticmethod
    def of_specs(directory: Directory, specs: Iterable[RunSpec]) -> Store:
        """Reads the runs named by ``specs``, in that order, leaving out those that never ended."""
        paths = (directory.root / spec.directory for spec in specs)
        return Store((stored_run(path) for path in paths if has_ended(str(path))), directory.root, directory)

    def __len__(self) -> int:
        return len(self.runs)

    @overload
    def __getitem__(self, index: int) -> StoredRun: ...
    @overload
    def __getitem__(self, index: slice) -> Store: ...
    def __getitem__(self, index: int | slice) -> StoredRun | Store:
        """Returns one run by its position, e.g. ``store.failed[0]``, or the store of a slice."""
        if isinstance(index, slice):
            return self._of(self.runs[index])
        try:
            return self.runs[index]
        except IndexError:
            raise IndexError(f"there is no run {index} among {len(self)}") from None

    def __iter__(self) -> Iterator[StoredRun]:
        return iter(self.runs)

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that the runs belong to."""
        return tuple(dict.fromkeys(run.study for run in self.runs))

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, in the order of the runs."""
        return tuple(dict.fromkeys(run.arm for run in self.runs))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in the order of the runs."""
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @functools.cached_property
    def finished(self) -> Store:
        """The runs with results, including those that diverged."""
        return self._filter(lambda run: run.has_results)

    @functools.cached_property
    def failed(self) -> Store:
        """The runs that failed."""
        return self._filter(lambda run: not run.has_results)

    def select(
        self, study: str | None = None, arms: Iterable[str] | None = None, seeds: Iterable[int] | None = None
    ) -> Store:
        """Returns the runs of one study, of the named arms (in that order), of the named seeds (in that order)."""
        chosen = self
        if study is not None:
            chosen = chosen._filter(lambda run: run.study == study)
        if arms is not None:
            order = {arm: index for index, arm in enumerate(arms)}
            chosen = chosen._filter(lambda run: run.arm in order)
            chosen = chosen._of(sorted(chosen.runs, key=lambda run: order[run.arm]))
        if seeds is not None:
            rank = {seed: index for index, seed in enumerate(seeds)}
            chosen = chosen._filter(lambda run: run.seed in rank)
            chosen = chosen._of(sorted(chosen.runs, key=lambda run: rank[run.seed]))
        return chosen

    @functools.cached_property
    def directory(self) -> Directory | None:
        """The directory of the runs: its log and declarations, read once; None if the runs have none."""
        from kymograph._runs.directory import Directory  # it makes stores

        return None if self.root is None else Directory(self.root)

    @property
    def declarations(self) -> Mapping[str, Declaration]:
        """The declarations stored with these runs, by study."""
        return {} if self.directory is None else self.directory.declarations

    def current(self) -> Store:
        """Returns the runs of each study's current code, without superseded ones."""
        return self._current

    @functools.cached_property
    def _current(self) -> Store:
        codes = current_code((run.spec for run in self.runs), self.declarations)
        return self._filter(lambda run: codes[run.study].made(run.spec))

    def where(self, **fields: Any) -> Store:
        """Returns the runs with these settings, e.g. ``where(lr=0.1)``; ``version`` and ``source`` select by code."""
        names = {"version", "source", *(name for run in self.runs for name in run.config)}
        for name in fields:
            if name not in names:
                raise KymographError(f"no run has a field {name!r}{did_you_mean(name, names)}")
        chosen = self._filter(lambda run: all(_setting(run, name) == value for name, value in fields.items()))
        if not chosen.runs:
            wanted = ", ".join(f"{name}={value}" for name, value in fields.items())
            raise KymographError(f"no run has {wanted}; check the runs' config.json")
        return chosen

    def series(self, name: str) -> LabelledArray:
        """Returns one quantity of every finished run, axes (arm, seed, step[, site]); absent entries are NaN.

        Steps increase along their axis. One that a run logged several times has that many entries, in the order of
        logging.
        """
        grid = self._grid()
        measured = {key: run.series[name] for key, run in grid.items() if name in run.series}
        if not measured:
            names = {series for run in grid.values() for series in run.series}
            raise KymographError(f"no run has a series {name!r}{did_you_mean(name, names)}")
        arms, seeds = _arms_and_seeds(measured)
        row_of, column_of = _positions(arms), _positions(seeds)
        # Nearly all runs share their steps and sites, so indices are computed once per distinct set.
        grids = {_key(series.step): series.step for series in measured.values()}
        steps, positions = aligned(list(grids.values()))
        labels_of = dict.fromkeys(series.sites for series in measured.values())
        sites = tuple(dict.fromkeys(site for labels in labels_of for site in labels or ()))
        site_of = _positions(sites)
        has_sites = next(iter(measured.values())).sites is not None
        at = {grid: rows[:, None] for grid, rows in zip(grids, positions, strict=True)}
        of = {
            labels: np.array([0] if labels is None else [site_of[site] for site in labels], dtype=np.intp)
            for labels in labels_of
        }
        values = np.full((len(arms), len(seeds), len(steps), len(sites) if has_sites else 1), np.nan)
        for (arm, seed), series in measured.items():
            rows, columns = at[_key(series.step)], of[series.sites]
            cell = values[row_of[arm], column_of[seed]]
            cell[rows, columns] = series.value.reshape(len(rows), len(columns))
        labels = {"arm": arms, "seed": seeds, "step": tuple(steps.tolist()), "site": sites}
        if not has_sites:
            values = values[..., 0]
            labels.pop("site")
            return LabelledArray(name, values, tuple(labels), labels)
        orders: dict[str, dict[tuple[str, ...], None]] = {}
        for (arm, _), series in measured.items():
            orders.setdefault(arm, {})[series.sites or ()] = None
        sites_of = {
            arm: tuple(dict.fromkeys(site for sites in order for site in sites)) for arm, order in orders.items()
        }
        return LabelledArray(name, values, tuple(labels), labels, sites_of)

    def summary(self, key: str) -> LabelledArray:
        """Returns one summary number of every finished run, axes (arm, seed); missing is NaN."""
        grid = self._grid()
        names = {name for run in grid.values() for name in run.summary}
        if key not in names:
            raise KymographError(f"no run has a summary {key!r}{did_you_mean(key, names)}")
        arms, seeds = _arms_and_seeds(grid)
        row_of, column_of = _positions(arms), _positions(seeds)
        values = np.full((len(arms), len(seeds)), np.nan)
        for (arm, seed), run in grid.items():
            value = run.summary.get(key)
            if isinstance(value, str):
                raise KymographError(f"the summary {key!r} is a string, not a number; read it as run.summary[{key!r}]")
            values[row_of[arm], column_of[seed]] = np.nan if value is None else float(value)
        return LabelledArray(key, values, ("arm", "seed"), {"arm": arms, "seed": seeds})

    def to_pandas(self) -> Any:
        """Returns a long table: one row per run, series, step and site, with columns of those names and ``value``.

        Settings in which the runs differ are columns as well.
        """
        return series_frame(self.finished.runs)

    def summary_to_pandas(self) -> Any:
        """Returns a table with one row per run: study, arm, seed, id, status, every setting and summary number."""
        return summary_frame(self.runs)

    def __repr__(self) -> str:
        if not self.runs:
            return "<store: no runs>"
        failed = len(self.failed)
        tail = f", {failed} failed" if failed else ""
        return (
            f"<store: {', '.join(self.studies)}; {len(self.runs)} runs{tail}; "
            f"{len(self.arms)} arms x {len(self.seeds)} seeds>"
        )

    def _repr_html_(self) -> str:
        rows = []
        for study in self.studies:
            for arm in self.select(study).arms:
                runs = self.select(study, [arm])
                rows.append((study, arm, len(runs.finished), len(runs.failed), ", ".join(map(str, runs.seeds))))
        return html_table(("study", "arm", "finished", "failed", "seeds"), rows)

    def _filter(self, keep: Callable[[StoredRun], bool]) -> Store:
        return self._of([run for run in self.runs if keep(run)])

    def _of(self, runs: Sequence[StoredRun]) -> Store:
        """Returns a store of ``runs``: this one, with its caches, if they are all of its runs in the same order."""
        same = len(runs) == len(self.runs) and all(map(operator.is_, runs, self.runs))
        return self if same else Store(runs, self.root, vars(self).get("directory"))

    def _grid(self) -> dict[tuple[str, int], StoredRun]:
        """Returns the finished runs by (arm, seed); raises if two of them share both."""
        grid: dict[tuple[str, int], StoredRun] = {}
        for run in self.finished:
            other = grid.setdefault((run.arm, run.seed), run)
            if other is run:
                continue
            if other.study != run.study:
                raise KymographError(
                    f"these runs belong to {other.study!r} and {run.study!r}; choose one with "
                    f"store.select({run.study!r}) or --study {run.study}"
                )
            differing = sorted(name for name in run.config if run.config[name] != other.config.get(name))
            if not differing and run.spec.source != other.spec.source:
                raise KymographError(
                    f"{run.arm} at seed {run.seed} was also run by earlier code of the study; use store.current(), or "
                    f"choose with store.where(source={run.spec.source!r})"
                )
            name = differing[0] if differing else "version"
            raise KymographError(
                f"{run.arm} at seed {run.seed} was run with several values of {', '.join(differing) or 'version'}; "
                f"choose one with store.where({name}={_setting(run, name)!r}) or --where {name}={_setting(run, name)}"
            )
        return grid


def _arms_and_seeds(keys: Iterable[tuple[str, int]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Returns the distinct arms and the distinct seeds of pairs of both, in order."""
    pairs = list(keys)
    return tuple(dict.fromkeys(arm for arm, _ in pairs)), tuple(dict.fromkeys(seed for _, seed in pairs))


def _key(steps: np.ndarray) -> tuple[str, bytes]:
    return steps.dtype.str, steps.tobytes()


def _positions(labels: Sequence[Any]) -> dict[Any, int]:
    return {label: position for position, label in enumerate(labels)}


def _setting(run: StoredRun, name: str) -> Any:
    return getattr(run.spec, name) if name in ("version", "source") else run.config.get(name)


def in_order(runs: Iterable[StoredRun], declarations: Mapping[str, Declaration]) -> list[StoredRun]:
    """Returns the runs sorted by study, arm and seed; arms are in declared order, undeclared ones last and by name.

    Figures, report and tables all take the order of arms, and hence their colours, from here.
    """
    position = {
        (study, arm.name): index
        for study, declaration in declarations.items()
        for index, arm in enumerate(declaration.arms)
    }

    def key(run: StoredRun) -> tuple[str, int, str, int, str]:
        return run.study, position.get((run.study, run.arm), len(position)), run.arm, run.seed, run.id

    return sorted(runs, key=key)


def read_declarations(root: Path) -> dict[str, Declaration]:
    """Returns the declarations of the studies below ``root``, an output directory or a study's own, by name."""
    declarations: dict[str, Declaration] = {}
    for path in matching(root, DECLARATION, f"*/{DECLARATION}"):
        declaration = read_declaration(path.parent)
        # A copy of a study's directory under another name does not override the study's own declaration.
        if declaration is None:
            continue
        if path.parent.name == slug(declaration.name) or declaration.name not in declarations:
            declarations[declaration.name] = declaration
    return declarations
