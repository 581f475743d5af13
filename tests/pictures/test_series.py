"""Which layers never ran, and what a cell of a kymograph shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kymograph._pictures.series import CellState, cell_states, never_ran
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record

SITES = ("fc", "side", "drop")
STEPS = np.arange(3)


def stored(root: Path, **series: list[float]) -> Store:
    """Stores one run; a series has the same value at every step, per site."""
    columns = {name: RunSeries(STEPS, np.tile(values, (3, 1)), SITES[: len(values)]) for name, values in series.items()}
    write_record(root, RunSpec("own", "a", 0, {}, 1), RunResult(columns, {}), {}, 0.1)
    return Store.open(root)


def test_a_layer_without_output_never_ran_and_one_without_gradient_did(tmp_path: Path) -> None:
    nan = np.nan
    store = stored(tmp_path, output_norm=[1.0, 2.0, nan], output_gradient_norm=[1.0, nan, nan])
    assert never_ran(store, store.series("output_gradient_norm")) == {"drop"}
    assert never_ran(store, store.series("output_norm")) == {"drop"}


def test_without_outputs_it_is_not_known_what_ran(tmp_path: Path) -> None:
    store = stored(tmp_path, output_gradient_norm=[1.0, np.nan, np.nan])
    assert never_ran(store, store.series("output_gradient_norm")) == set()


def test_a_run_without_any_value_says_nothing_about_its_layers(tmp_path: Path) -> None:
    store = stored(tmp_path, output_norm=[np.nan, np.nan, np.nan])
    assert never_ran(store, store.series("output_norm")) == set()


def test_a_layer_that_runs_in_one_arm_ran(tmp_path: Path) -> None:
    for arm, last in (("a", np.nan), ("b", 1.0)):
        series = {"output_norm": RunSeries(STEPS, np.tile([1.0, 1.0, last], (3, 1)), SITES)}
        write_record(tmp_path, RunSpec("own", arm, 0, {}, 1), RunResult(series, {}), {}, 0.1)
    store = Store.open(tmp_path)
    assert never_ran(store, store.series("output_norm")) == set()


@given(
    arrays(np.float64, (2, 3, 4), elements=st.sampled_from([0.0, 1.0, np.nan])),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_every_cell_is_in_one_state(values: np.ndarray, exists: list[bool]) -> None:
    states = cell_states(values, np.array(exists))
    for step, site in np.ndindex(3, 4):
        seeds = [value for value in values[:, step, site] if value == value]
        expected = (
            CellState.ABSENT
            if not exists[site]
            else (CellState.MISSING if not seeds else CellState.VALUE if any(seeds) else CellState.ZERO)
        )
        assert states[step, site] == expected
