"""Stored runs as rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kymograph._runs.record import RunResult, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.tables import differing_columns, setting_columns, summary_rows
from tests.records import write_record


def stored(root: Path, *configs: dict[str, Any]) -> Store:
    for config in configs:
        result = RunResult({}, {"lr": 7.0, "loss": np.inf, "rare": np.nan})
        write_record(root, RunSpec("table", "only", 1, config, 1), result, {}, 1.0)
    return Store.open(root)


def test_every_row_has_identity_settings_and_summary(tmp_path: Path) -> None:
    store = stored(tmp_path, {"lr": 0.1, "sizes": [4, 8]})
    write_failure(tmp_path, RunSpec("table", "other", 1, {"lr": 0.2, "momentum": 0.9}, 1), "it broke", {})
    first, second = summary_rows(Store.open(tmp_path).runs)
    assert list(first) == list(second), "all rows have the same columns"
    assert first["lr"] == 0.1 and first["sizes"] == "[4, 8]" and first["momentum"] is None
    assert first["loss"] == np.inf and first["rare"] is None and first["id"] == store.runs[0].id
    assert second["status"] == "failed" and second["lr"] == 0.2 and second["loss"] is None


def test_a_setting_keeps_its_name_and_whatever_else_is_called_so_gives_way(tmp_path: Path) -> None:
    (row,) = summary_rows(stored(tmp_path, {"lr": 0.1, "step": 3}).runs)
    assert row["lr"] == 0.1 and row["summary/lr"] == 7.0 and row["setting/step"] == 3


def test_settings_that_differ_include_those_that_some_runs_lack(tmp_path: Path) -> None:
    store = stored(tmp_path, {"lr": 0.1, "clip": None, "one": 1}, {"lr": 0.1, "one": 1.0}, {"lr": 0.1, "clip": None})
    assert set(setting_columns(store.runs)) == {"lr", "clip", "one"}
    assert set(differing_columns(store.runs)) == {"clip", "one"}
