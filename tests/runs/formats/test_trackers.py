from __future__ import annotations

import calendar
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kymograph._runs.formats.trackers import scalars, summary_numbers, summary_words, written_at
from kymograph._runs.record import RunSeries
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from tests.runs.formats.awkward import awkward_store, expected


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return awkward_store(tmp_path_factory.mktemp("awkward"))


def test_missing_values_are_left_out_and_infinities_stay(store: Store) -> None:
    for run in store.finished:
        wanted = expected(run.seed)
        for scalar in scalars(run):
            points = list(zip(scalar.step.tolist(), scalar.value.tolist(), strict=True))
            assert points == wanted.get(scalar.tag, []), scalar.tag
    assert list(scalars(store.failed.runs[0])) == []


@given(arrays(np.float64, st.tuples(st.integers(0, 6), st.integers(1, 3)), elements=st.floats(width=32)))
def test_every_value_but_nan_is_there_at_its_step(values: np.ndarray) -> None:
    step = np.arange(len(values)) * 3
    sites = tuple(f"h_{index}" for index in range(values.shape[1]))
    run = SimpleNamespace(series={"x": RunSeries(step, values, sites), "first": RunSeries(step, values[:, 0])})
    found = list(scalars(run))  # type: ignore[arg-type]
    assert [scalar.tag for scalar in found] == [*(f"x/{site}" for site in sites), "first"]
    for scalar, column in zip(found, [*values.T, values[:, 0]], strict=True):
        pairs = [(at, value) for at, value in zip(step.tolist(), column.tolist(), strict=True) if value == value]
        assert list(zip(scalar.step.tolist(), scalar.value.tolist(), strict=True)) == pairs


def test_a_summary_is_numbers_and_words(store: Store) -> None:
    run = store.finished.runs[0]
    assert summary_numbers(run) == {"final_loss": np.inf, "gain": 0.1, "finite": 0.0, "n": 4.0}
    assert summary_words(run) == {"kind": "k1"}


def test_the_time_is_that_of_the_record_wherever_it_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.runs[0]
    assert 0 <= calendar.timegm(time.gmtime()) - written_at(run) < 600
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert 0 <= calendar.timegm(time.gmtime()) - written_at(run) < 600
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_record_without_a_time_is_of_the_beginning(tmp_path: Path) -> None:
    run = awkward_store(tmp_path).runs[0]
    status = run.directory / "status.json"
    status.write_text(status.read_text().replace('"written"', '"other"'))
    assert written_at(StoredRun(run.directory)) == 0.0
