"""The network of the latest run: in the state, in a terminal and on the page."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from kymograph._pictures.live.network import COLUMNS, LEVELS, MISSING, ZERO
from kymograph._pictures.live.reading import read_state
from kymograph._pictures.live.terminal import watch
from kymograph._runs.declaration import SeriesDisplay
from kymograph._runs.record import RunResult, RunSeries
from tests.pictures.live.stage import declare, finish, plan, specs
from tests.pictures.report.pages import llama_sites, make_networks
from tests.records import write_record


def network(root: Path) -> dict:
    (study,) = read_state(root, 0.0).to_json()["studies"]
    assert study["network"] is not None
    return study["network"]


def shown(root: Path) -> str:
    file = io.StringIO()
    watch(str(root), once=True, console=Console(file=file, highlight=False))
    return file.getvalue()


def test_the_state_has_the_maps_of_the_latest_run_one_letter_per_cell(tmp_path: Path) -> None:
    make_networks(tmp_path, {"a": llama_sites(6)}, seeds=1, steps=200)
    found = network(tmp_path)
    assert (found["series"], found["arm"], found["seed"]) == ("output_norm", "a", 0)
    stream, *others = found["maps"]
    assert stream["map"]["title"] == "model.layers.*" and stream["map"]["labels"] == list("012345")
    assert [len(row) for row in stream["rows"]] == [50] * 6 and max(map(len, stream["rows"])) <= COLUMNS
    assert set("".join(stream["rows"])) <= set(LEVELS)
    assert stream["rows"][5].count(LEVELS[-1]) and stream["rows"][0].count(LEVELS[0]), "it grows with depth"
    assert others[-1]["map"]["sites"] == ["model.embed_tokens", "model.norm", "lm_head"]
    assert found["left_out"] == ["model.layers.*.mlp.drop (6 sites)"]


def test_a_zero_and_a_missing_value_have_letters_of_their_own(tmp_path: Path) -> None:
    declare(tmp_path, series=(SeriesDisplay("wanted", "x", "x", log=True, forms=("kymograph",)),))
    (run,) = specs(1)
    plan(tmp_path, [run])
    values = np.array([[0.0, 1.0, np.nan], [2.0, 1e3, 1.0], [np.inf, 4.0, 1.0]])
    series = {"other": RunSeries(np.arange(3), np.ones((3, 2)), ("p", "q")),
              "wanted": RunSeries(np.arange(3), values, ("a", "b", "c"))}  # fmt: skip
    write_record(tmp_path, run, RunResult(series, {}), {}, 1.0)
    found = network(tmp_path)
    assert found["series"] == "wanted", "what the study declares"
    (only,) = found["maps"]
    assert [row.translate({ord(level): "#" for level in LEVELS}) for row in only["rows"]] == [
        f"{ZERO}#{MISSING}",
        "###",
        f"{MISSING}##",
    ]
    assert only["ends"] == [[0.0, 2.0], [1.0, 4.0], [1.0, 1.0]]


def test_a_series_of_one_site_or_one_step_is_no_network(tmp_path: Path) -> None:
    runs = specs(1)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    assert read_state(tmp_path, 0.0).studies[0].network is None


def test_a_terminal_shows_the_stream_and_names_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    make_networks(tmp_path, {"a": llama_sites(32)}, seeds=1)
    text = shown(tmp_path)
    head, *rest = text[text.index("output norm of model.layers.*") :].splitlines()
    assert ", latest run (a, seed 0), 8 of 32 layers" in head
    rows = [line.split() for line in rest[:8]]
    assert [row[0] for row in rows] == [str(row) for row in range(0, 32, 4)]
    assert all(set(row[1]) <= set("▁▂▃▄▅▆▇█") for row in rows)
    assert "also recorded: self_attn.q_proj, self_attn.k_proj and 6 more families, 3 single layers" in text
    assert "never ran: model.layers.*.mlp.drop (32 sites)" in text
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, shown(tmp_path).splitlines())) <= 60
