"""Pages and live views of the built-in studies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph._claims.verdict import Verdicts
from kymograph._experiments.result_text import headline_table
from kymograph._pictures.live.reading import read_state
from kymograph._pictures.live.state import LiveState, StudyState
from kymograph._pictures.report_page.charts import Chart, ChartRequest
from kymograph._pictures.report_page.page import build_page
from kymograph._pictures.report_page.sections import PANELS
from kymograph._rounding import number_text
from kymograph._runs.declaration import Declaration, SeriesDisplay, read_declaration
from kymograph._runs.log import DIRECTORY
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph_studies.analysis.alarms import GRADIENT, GROWTH
from tests.pictures.report.pages import (
    HOSTILE_ARM,
    NOW,
    PROVENANCE,
    Outline,
    declaring,
    environment,
    make_runs,
    make_verdicts,
)
from tests.records import write_record


def test_headline_numbers_wider_than_the_terminal_are_a_line_each(depth_store, monkeypatch: pytest.MonkeyPatch) -> None:
    from kymograph._studies.loading import load_study

    study = load_study("depth")
    monkeypatch.setenv("COLUMNS", "400")
    table = headline_table(study, depth_store.finished)
    monkeypatch.setenv("COLUMNS", "60")
    blocks = headline_table(study, depth_store.finished)
    assert len(table.split("\n")) == 1 + len(depth_store.arms)
    assert max(map(len, blocks.split("\n"))) < max(map(len, table.split("\n")))
    for row, arm in zip(table.split("\n")[1:], depth_store.arms, strict=True):
        assert arm in blocks
        for cell in re.split(r" {2,}", row)[2:]:
            assert cell in blocks


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Outline:
    store = make_runs(tmp_path_factory.mktemp("runs"), arms=("calm", "wild", HOSTILE_ARM))
    return Outline(build_page(store, make_verdicts(), title="A & B", now=NOW))


def test_built_in_studies_have_their_question_arms_and_charts(depth_store: Store, clipping_store: Store) -> None:
    depth = Outline(build_page(depth_store, Verdicts(()), now=NOW))
    assert "Do residual connections rescue" in depth.text and "h ← h + relu(W h)" in depth.text
    assert "No claims were judged" in depth.text and "forward gain, start" in depth.text
    kinds = [chart["kind"] for chart in depth.charts()]
    assert kinds.count("kymograph") == 2 and kinds.count("curves") == 3 + 6
    clipping = Outline(build_page(clipping_store, Verdicts(()), now=NOW))
    loss = clipping.charts()[0]
    assert [panel["title"] for panel in loss["panels"]] == ["99:1", "80:20"]
    assert len(loss["arms"][0]["x"]) <= 150 and "each point is the mean of up to 2 steps" in clipping.text


def test_the_page_is_built_without_torch(depth_store: Store) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from kymograph._runs.store import Store
from kymograph._claims.judge import judge
from kymograph._pictures.report_page.page import build_page
store = Store.open({str(depth_store.root)!r})
assert len(build_page(store, judge(store), now="now")) > 10_000
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


def test_a_manipulation_check_is_labelled_and_counted_apart(clipping_store: Store) -> None:
    """It used to look like a finding, and to be counted as one."""
    verdicts = kymograph.judge(clipping_store)
    checks = [verdict for verdict in verdicts if verdict.claim.kind is not None]
    page = Outline(build_page(clipping_store, verdicts, now=NOW))
    assert len(checks) > 1 and f"and {len(checks)} manipulation checks: True by construction" in page.text
    counted = f"{len(verdicts) - len(checks)} claims and {len(checks)} manipulation checks"
    assert f"{counted} judged" in page.text and f"{counted} were judged" in page.text, "as the terminal counts"
    assert page.text.count("clipping · manipulation check,") == len(checks)


def test_a_table_of_alarms_states_their_thresholds(tmp_path: Path) -> None:
    columns = {"alarm_growth_epoch": "growth", "alarm_gradient_epoch": "g"}
    declaration = Declaration("snapshot", tables={"Alarms": columns})
    store = make_runs(tmp_path, "snapshot", summary={"alarm_growth_epoch": 3.0, "alarm_gradient_epoch": 4.0})
    text = Outline(build_page(declaring(store, {"snapshot": declaration}), make_verdicts(), now=NOW)).text
    assert f"growth: the activation norm grows more than {GROWTH:g}-fold" in text
    assert f"is below {number_text(GRADIENT, typeset=True)}" in text and "reference" not in text, (
        "only the alarms in the table"
    )


def test_stored_runs_of_a_built_in_study_look_the_same_with_and_without_study_json(
    depth_store: kymograph.Store,
) -> None:
    assert depth_store.root is not None
    stored = read_declaration(depth_store.root / depth_store.studies[0])
    assert stored is not None, "a sweep stores it"
    declared = build_page(declaring(depth_store, {stored.name: stored}), Verdicts(()), now=NOW)
    assert declared == build_page(declaring(depth_store, {}), Verdicts(()), now=NOW)


def draw(form: str, store: Store, log: bool | None = None, series: str = "x", **facts: object) -> Chart | None:
    """Returns one chart of a series."""
    return PANELS.load(form)(ChartRequest("c", store, SeriesDisplay(series, series, series, log=log, **facts)))  # type: ignore[arg-type]


def test_every_kind_of_panel_is_found_and_small_pictures_come_first() -> None:
    assert PANELS.names()[:4] == ["nulls", "curves", "kymograph", "profile"]
    assert all(part.about for part in PANELS.parts().values())


def null_runs(root: Path, with_sites: bool) -> Store:
    rng = np.random.default_rng(0)
    for seed in (1, 2):
        draws = {name: rng.normal(size=(50, 3)) for name in ("drawn_a", "drawn_b", "drawn_c")}
        sites = ("first", "chosen", "last")
        series = {
            name: RunSeries(np.arange(50), value if with_sites else value[:, 1], sites if with_sites else None)
            for name, value in draws.items()
        }
        spec = RunSpec("mine", "arm", seed, {}, 1)
        write_record(root, spec, RunResult(series, {"seen": 2.5 + seed, "text": "x"}), PROVENANCE, 0.1)
    return Store.open(root)


@pytest.mark.parametrize("with_sites", [True, False])
def test_null_densities_and_observed_values_are_those_the_facts_name(tmp_path: Path, with_sites: bool) -> None:
    facts = {"observed": "seen", "site": "chosen", "nulls": {"drawn_a": "by chance", "drawn_b": "<permuted>"},
             "x_label": "how much"}  # fmt: skip
    store = null_runs(tmp_path, with_sites)
    display = SeriesDisplay("drawn_a", "Seen against drawn", "density", forms=("nulls",), options=facts)
    page = build_page(declaring(store, {"mine": Declaration("mine", series=(display,))}), Verdicts(()), now=NOW)
    outline = Outline(page)
    (table,) = outline.charts()
    assert [row[-1] for row in table["rows"] if row[1] == "observed"] == [3.5, 4.5]
    assert {row[1] for row in table["rows"]} == {"drawn_a", "drawn_b", "observed"}
    chosen = np.concatenate([run.series["drawn_a"].value.reshape(50, -1)[:, 1 if with_sites else 0] for run in store])
    bars = [row for row in table["rows"] if row[1] == "drawn_a"]
    assert sum((row[4] - row[3]) * row[5] for row in bars) == pytest.approx(1, rel=1e-3), "a density"
    edges = np.array([bars[0][3], *(row[4] for row in bars)])
    expected = np.histogram(chosen, edges, density=True)[0]
    np.testing.assert_allclose([row[5] for row in bars], expected, rtol=0.2, atol=0.2)
    for text in ("by chance, 100 draws", "<permuted>, 100 draws", "arm, observed", "n = 2", "how much"):
        assert text in outline.text, text
    assert "not drawn here: drawn_c" in " ".join(outline.text.split()), "the nulls of the facts are drawn"


def test_however_many_nulls_each_has_its_ridge(tmp_path: Path) -> None:
    values = {f"null_{index}": RunSeries(np.arange(9), np.linspace(0, index, 9)) for index in range(1, 8)}
    write_record(tmp_path, RunSpec("mine", "arm", 1, {}, 1), RunResult(values, {"seen": 1}), {}, 0.1)
    facts = {"observed": "seen", "nulls": {name: name for name in values}}
    chart = draw("nulls", Store.open(tmp_path), series="null_1", options=facts)
    assert (
        chart is not None and str(chart.panels[0].picture).count('class="ridge"') == 7 and chart.series == tuple(values)
    )


def test_nothing_observed_is_nothing_drawn(tmp_path: Path) -> None:
    store = null_runs(tmp_path, True)
    nulls = {"drawn_a": "a"}
    for facts in (
        {"observed": "absent", "site": "chosen", "nulls": nulls},
        {"observed": "text", "site": "chosen", "nulls": nulls},
        {"observed": "seen", "site": "elsewhere", "nulls": nulls},
        {"observed": "seen", "nulls": {}},
    ):
        assert draw("nulls", store, series="drawn_a", options=facts) is None


def only(state: LiveState) -> StudyState:
    (study,) = state.studies
    return study


def test_runs_without_a_plan_are_shown_and_so_is_a_studys_own_directory(clipping_store: Store, tmp_path: Path) -> None:
    assert clipping_store.root is not None
    shutil.copytree(clipping_store.root, tmp_path, dirs_exist_ok=True)
    whole = read_state(tmp_path, 0.0)
    assert read_state(tmp_path / "clipping", 0.0).studies == whole.studies, "the log beside it says what was planned"
    shutil.rmtree(tmp_path / DIRECTORY)
    bare = read_state(tmp_path, 0.0)
    assert bare.ended and only(bare).counts.finished == len(clipping_store)
    assert {arm.name: arm for arm in only(bare).arms} == {arm.name: arm for arm in only(whole).arms}
    assert read_state(tmp_path / "clipping", 0.0).studies == bare.studies


def test_headlines_are_the_stores_means(clipping_store: Store) -> None:
    assert clipping_store.root is not None
    study = only(read_state(clipping_store.root, 0.0))
    array = clipping_store.summary("spike_ratio")
    for arm in study.arms:
        (headline,) = [one for one in arm.headlines if one.key == "spike_ratio"]
        assert headline.mean == pytest.approx(array.sel(arm=arm.name).values.mean())
        assert sorted(headline.values) == sorted(array.sel(arm=arm.name).values)  # type: ignore[type-var]
        assert arm.trace is not None and arm.trace.name == "loss" and len(arm.trace.values) == 60
