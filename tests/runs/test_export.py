from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph.errors import KymographError
from kymograph.runs.export import export
from tests.runs.formats.trackers import awkward_store


def test_parquet_is_a_long_table_and_a_table_of_summaries(tmp_path: Path) -> None:
    import pandas

    store = awkward_store(tmp_path / "runs")
    table = pandas.read_parquet(export(store, "parquet", tmp_path / "runs.parquet"))
    assert set(table.columns) == {"study", "arm", "seed", "id", "series", "site", "step", "value"}
    for run in store.finished:
        mine = table[table.id == run.id]
        for name, series in run.series.items():
            rows = mine[mine.series == name]
            np.testing.assert_array_equal(rows.value.to_numpy().reshape(series.value.shape), series.value)
            assert rows.step.unique().tolist() == series.step.tolist()
            assert tuple(rows.site.dropna().unique()) == (series.sites or ())
    summaries = pandas.read_parquet(tmp_path / "runs-summary.parquet").set_index("id")
    assert len(summaries) == len(store)
    for run in store.finished:
        row = summaries.loc[run.id]
        assert row.gain == run.summary["gain"] and row.final_loss == np.inf and row.kind == run.summary["kind"]
        assert pandas.isna(row.rare), "missing, not 0"
    assert pandas.isna(summaries.loc[store.failed.runs[0].id].gain)


def test_a_key_that_is_a_word_here_and_a_number_there_is_a_word(tmp_path: Path) -> None:
    import pandas

    from kymograph.runs.record import RunResult, write_record
    from tests.runs.formats.trackers import spec

    store = awkward_store(tmp_path / "runs")
    write_record(tmp_path / "runs", spec("two", "c", 1), RunResult({}, {"kind": 3.5}), {}, 1.0)
    export(type(store).open(tmp_path / "runs"), "parquet", tmp_path / "x.parquet")
    kinds = pandas.read_parquet(tmp_path / "x-summary.parquet").kind
    assert set(kinds.dropna()) == {"k1", "k2", "3.5"} and kinds.isna().sum() == 1


@pytest.mark.parametrize("absent", ["pandas", "pyarrow"])
def test_without_the_libraries_one_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    store = awkward_store(tmp_path / "runs")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(KymographError, match=r"kymograph\[frame\]"):
        export(store, "parquet", tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()
