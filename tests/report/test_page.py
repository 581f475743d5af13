from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kymograph
from kymograph.claims.verdict import Outcome, Verdicts
from kymograph.cli.main import main
from kymograph.report.chart import rounded
from kymograph.report.evidence import dot_plot, evidence_of, measured
from kymograph.report.grouping import Look, panels_of, settings_of
from kymograph.report.page import build_page, data_block, write_page
from kymograph.report.panels.curves import curve_chart
from kymograph.report.panels.kymograph import kymograph_chart
from kymograph.report.sections import Cell, section_of
from kymograph.report.svg import Scale, labels, linear_ticks, log_ticks, number
from kymograph.runs.ledger import record_plan
from kymograph.runs.record import RunResult, RunSeries, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from tests.report.pages import HOSTILE_ARM, HOSTILE_CLAIM, PROVENANCE, add_failure, claim, make_runs, make_verdicts

NOW = "2030-01-02 03:04:05 UTC"


class Outline(HTMLParser):
    """Every element with its attributes, the text of the page, and what scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.raw: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.raw.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.raw[-1] = (self._inside, self.raw[-1][1] + data)
        else:
            self.text += data

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]

    def charts(self) -> list[dict]:
        return [json.loads(text) for tag, text in self.raw if tag == "script" and text.startswith('{"kind"')]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Outline:
    store = make_runs(tmp_path_factory.mktemp("runs"), arms=("calm", "wild", HOSTILE_ARM))
    return Outline(build_page(store, make_verdicts(), title="A & B", now=NOW))


def test_everything_promised_is_on_the_page(page: Outline) -> None:
    assert [dict(a)["id"] for t, a in page.elements if t == "section"] == [
        "verdicts", "study-own", "methods", "provenance"
    ]  # fmt: skip
    for outcome in Outcome:
        assert outcome in page.text
    for text in (
        "A & B", NOW, "5 claims judged", "+0.545 [+0.52, +0.57]", "×2.05 [1.9, 2.2]", "[0.525, 0.565]",
        "[0.521, 0.569]", "< 0.0001", "0.0019", "Hedges g", "0.97 [0.8, 0.99]", "seed 14 is missing", "it converged",
        "12 steps in every seed", "changed after runs existed", "post hoc", "1,234", claim("rises").hash,
        "exact sign-flip", "Holm", "No run failed", "python 3.11", "one & only", "Seeds of every arm: 42, 123, 456",
    ):  # fmt: skip
        assert text in page.text, text
    assert len(page.with_class("claim")) == len(page.with_class("evidence")) == 5
    assert len(page.with_class("seed")) == 10 + 10 + 3 + 2, "a dot per seed judged"


def test_every_chart_has_a_legend_with_n_a_caption_and_its_data(page: Outline) -> None:
    charts = page.charts()
    kinds = [chart["kind"] for chart in charts]
    assert kinds.count("curves") == 3 and kinds.count("kymograph") == 2 and kinds.count("table") == 4
    figures = [attributes for tag, attributes in page.elements if tag == "figure"]
    assert len(figures) == 5 and len(page.with_class("csv")) == 5 + 4
    assert page.text.count("n = 3") >= 3 * 3
    curve = next(chart for chart in charts if chart["kind"] == "curves")
    arm = curve["panels"][0]["arms"][0]
    assert arm["seeds"] == [42, 123, 456] and len(arm["values"]) == 3 and len(arm["x"]) == 12


def test_the_numbers_behind_a_chart_are_those_of_the_runs(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    charts = Outline(build_page(store, Verdicts(()), now=NOW)).charts()
    loss = next(c for c in charts if c["unit"] == "loss")
    values = store.series("loss").sel(arm="wild").values
    arm = loss["panels"][0]["arms"][1]
    np.testing.assert_allclose(arm["values"], values, rtol=1e-4)
    np.testing.assert_allclose(arm["mean"], values.mean(axis=0), rtol=1e-4)
    stream = next(c for c in charts if c["kind"] == "kymograph" and c["unit"] == "stream")
    expected = np.exp(np.log(store.series("stream").sel(arm="wild").values).mean(axis=0)).T  # (site, step)
    np.testing.assert_allclose(stream["panels"][1]["values"], expected, rtol=1e-4)


def test_hostile_texts_show_as_text(page: Outline) -> None:
    assert HOSTILE_CLAIM in page.text and HOSTILE_ARM in page.text
    images = [attributes for tag, attributes in page.elements if tag == "img"]
    assert not images
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert [text for tag, text in page.raw if tag == "script" and "alert(" in text and not text.startswith("{")] == []


def test_a_stored_study_name_imports_nothing(tmp_path: Path) -> None:
    store = make_runs(tmp_path, study="antigravity:nothing")
    before = set(sys.modules)
    assert "antigravity:nothing" in build_page(store, Verdicts(()), now=NOW)
    assert "antigravity" not in set(sys.modules) - before


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=5))
def test_data_blocks_hold_any_text_and_never_end_their_element(value: object) -> None:
    text = str(data_block(value))
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_two_pages_differ_in_the_time_stamp_alone(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    code = (
        "import sys; from kymograph.runs.store import Store; from kymograph.report.page import build_page;"
        "from tests.report.pages import make_verdicts;"
        f"sys.stdout.write(build_page(Store.open({str(tmp_path)!r}), make_verdicts(), now='another time'))"
    )
    environment = {**_environment(), "PYTHONHASHSEED": "7"}  # sets in another order than here
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout
    here = build_page(store, make_verdicts(), now=NOW)
    assert other.decode() != here and other.decode().replace("another time", NOW) == here


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_the_policy_names_this_pages_own_scripts_and_nothing_loads(page: Outline) -> None:
    policy = next(a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy
    own = [text for tag, text in page.raw if not text.startswith("{")]
    assert len(own) == 3
    for text in own:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    for tag, attributes in page.elements:
        assert "style" not in attributes, f"{tag}: the policy forbids style attributes"
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_built_in_studies_have_their_question_arms_and_charts(depth_store: Store, clipping_store: Store) -> None:
    depth = Outline(build_page(depth_store, Verdicts(()), now=NOW))
    assert "Do residual connections rescue" in depth.text and "h <- h + relu(W h)" in depth.text
    assert "No claims were judged" in depth.text and "forward gain, start" in depth.text
    kinds = [chart["kind"] for chart in depth.charts()]
    assert kinds.count("kymograph") == 2 and kinds.count("curves") == 3 + 4
    clipping = Outline(build_page(clipping_store, Verdicts(()), now=NOW))
    loss = clipping.charts()[0]
    assert [panel["title"] for panel in loss["panels"]] == ["extreme", "moderate"]
    assert len(loss["panels"][0]["arms"][0]["x"]) <= 200 and "each point is the mean of up to 2 steps" in clipping.text


def test_settings_apart_failures_divergence_and_audits_are_told(tmp_path: Path) -> None:
    make_runs(tmp_path, summary={"finite": False, "alarm_decay": True, "audit_gap": 0.25})
    make_runs(tmp_path, config={"lr": 0.5})
    store = add_failure(tmp_path, "out of <memory>")
    assert [fields for fields, _ in settings_of(store)] == [{"lr": 0.1}, {"lr": 0.5}]
    page = Outline(build_page(store, Verdicts(()), now=NOW))
    for text in ("lr: 0.1", "lr: 0.5", "3 diverged", "1 failed", "out of <memory>", "alarm decay", "3 of 3", "0.25",
                 "6 runs diverged", "1 run failed and took no part"):  # fmt: skip
        assert text in page.text, text


def test_null_histograms_mark_the_observed_cosines(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for seed in (1, 2):
        series = {
            f"null_{name}": RunSeries(np.arange(50), draw.normal(size=(50, 3)), ("h_0", "h_1", "deep"))
            for name in ("fresh", "rows", "columns")
        }
        spec = RunSpec("calibration", "vanilla", seed, {"penalty": 0.0}, 1)
        write_record(tmp_path, spec, RunResult(series, {"deep_cosine": 2.5 + seed}), PROVENANCE, 0.1)
    page = Outline(build_page(Store.open(tmp_path), Verdicts(()), now=NOW))
    table = next(chart for chart in page.charts() if chart["kind"] == "table")
    assert [row[-1] for row in table["rows"] if row[1] == "observed"] == [3.5, 4.5]
    for name in ("fresh", "rows", "columns"):
        bars = [row for row in table["rows"] if row[1] == f"null {name}"]
        assert sum((row[4] - row[3]) * row[5] for row in bars) == pytest.approx(1, rel=1e-3), "a density"
    assert "n = 100 draws" in page.text and "n = 2" in page.text


def test_missing_zero_and_infinite_values_do_not_stop_the_page(tmp_path: Path) -> None:
    time_ = np.arange(5)
    values = {"gone": np.full(5, np.nan), "zero": np.zeros(5), "wild": np.array([1, np.inf, 1e300, 0, np.nan])}
    for seed in (1, 2):
        series = {name: RunSeries(time_, value) for name, value in values.items()}
        series |= {f"{n}_deep": RunSeries(time_, np.stack([v, v], 1), ("a", "b")) for n, v in values.items()}
        spec = RunSpec("own", "arm", seed, {}, 1)
        write_record(tmp_path, spec, RunResult(series, {"loss": math.inf, "gain": None}), PROVENANCE, 0.1)
    page = build_page(Store.open(tmp_path), Verdicts(()), now=NOW)
    assert "overflowed" in page and "NaN" not in page.split("<body>")[1].split("<script>")[0]


def test_the_dot_plot_places_dots_margin_and_intervals_on_one_scale() -> None:
    verdict = make_verdicts()[0]
    picture = str(dot_plot(verdict))
    dots = [float(x) for x in re.findall(r'class="seed"[^>]* cx="([\d.]+)"', picture)]
    assert dots == sorted(dots) and len(dots) == 10
    gaps = np.diff(dots)
    np.testing.assert_allclose(gaps, gaps.mean(), atol=0.02)  # the values are equally spaced
    zero = float(re.search(r'class="none" x1="([\d.]+)"', picture)[1])  # type: ignore[index]
    margin = re.search(r'class="margin" x="([\d.]+)"[^>]* width="([\d.]+)"', picture)
    assert margin is not None
    assert float(margin[1]) + float(margin[2]) / 2 == pytest.approx(zero, abs=0.02), "the margin is symmetric"
    per_unit = gaps.mean() / 0.01
    assert (dots[0] - zero) / per_unit == pytest.approx(0.5, rel=1e-2)
    assert str(dot_plot(make_verdicts()[4])) == "" and evidence_of(0, verdict).columns[-1] == "difference"
    assert measured(claim("x")) == "final_loss (wild) is greater than final_loss (calm) by more than 0.1"


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_within_and_have_labels_of_their_own(low: float, span: float) -> None:
    span = max(span, 1e-4 * abs(low))
    ticks = linear_ticks(low, low + span, 5)
    assert 2 <= len(ticks) <= 7 and all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    assert len(set(labels(ticks))) == len(ticks)


@given(st.floats(1e-12, 1e6), st.floats(1.001, 1e12))
def test_log_ticks_lie_within(low: float, factor: float) -> None:
    ticks = log_ticks(low, low * factor, 5)
    assert ticks == sorted(set(ticks)) and len(ticks) <= 8
    assert all(low * (1 - 1e-9) <= tick <= low * factor * (1 + 1e-9) for tick in ticks)


def test_scales_numbers_and_panels() -> None:
    assert Scale(1, 100, 0, 10, log=True)(np.array([1, 10, 100])).tolist() == pytest.approx([0, 5, 10])
    assert math.isnan(Scale(1, 100, 0, 10, log=True).at(0))
    assert [number(v) for v in (0.5, -1.5e-7, 12345.0, 1e9, math.nan, -math.inf)] == [
        "0.5", "−1.5×10⁻⁷", "12,340", "10⁹", "–", "−∞"
    ]  # fmt: skip
    assert rounded([1.23456789, math.inf, 3]) == [1.2346, None, 3]
    assert [len(arms) for _, arms in panels_of("own", [str(n) for n in range(14)])] == [5, 5, 4]


def test_the_page_is_built_without_torch(depth_store: Store) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from kymograph.runs.store import Store
from kymograph.lab.judge import judge
from kymograph.report.page import build_page
store = Store.open({str(depth_store.root)!r})
assert len(build_page(store, judge(store), now="now")) > 10_000
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment())


def test_the_verb_writes_the_page_and_says_where(
    depth_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "deep" / "report.html"
    with pytest.raises(SystemExit) as exit_:
        main(["report", str(depth_store.root), "-o", str(target), "--title", "Ours"])
    assert exit_.value.code == 0 and capsys.readouterr().out.strip() == str(target)
    assert "<title>Ours</title>" in target.read_text()
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path / "absent")])
    assert "there is no directory" in capsys.readouterr().err


def test_two_hundred_runs_of_a_hundred_epochs_and_ten_sites_fit(tmp_path: Path) -> None:
    arms = [f"arm/{number}" for number in range(20)]
    store = make_runs(tmp_path, arms=arms, seeds=kymograph.fixed_seeds(10), steps=100, sites=10)
    start = time.perf_counter()
    page = build_page(Store.open(store.root or tmp_path), make_verdicts(), now=NOW)
    assert time.perf_counter() - start < 20
    assert len(page.encode()) < 10e6


def test_no_verb_imports_what_a_stored_name_says(tmp_path: Path) -> None:
    make_runs(tmp_path, study="antigravity:nothing")
    code = (
        "import sys; from kymograph.cli.main import main\n"
        "for words in (['report', sys.argv[1], '-o', sys.argv[1] + '/r.html'], ['judge', sys.argv[1]],"
        " ['figure', '--from', sys.argv[1]]):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "sys.exit('antigravity' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=_environment())
    assert done.returncode == 0 and (tmp_path / "r.html").exists()


def store_of(root: Path, values: dict[int, np.ndarray], summary: dict | None = None, study: str = "own") -> Store:
    """Stores one arm whose series ``x`` is given by seed, with two sites where it has two axes."""
    for seed, series in values.items():
        sites = ("h_0", "h_1") if series.ndim == 2 else None
        result = RunResult({"x": RunSeries(np.arange(len(series)), series, sites)}, dict(summary or {}))
        write_record(root, RunSpec(study, "arm", seed, {}, 1), result, {}, 0.1)
    return Store.open(root)


def test_what_was_measured_as_zero_is_not_shown_as_missing(tmp_path: Path) -> None:
    zero, one = np.zeros((4, 2)), np.ones((4, 2))
    look = Look("x", "x", "x", log=True, forms=("curves",))
    store = store_of(tmp_path, {1: np.zeros(4), 2: np.zeros(4)})
    ones = RunResult({"x": RunSeries(np.arange(4), np.ones(4))}, {})
    write_record(tmp_path, RunSpec("own", "other", 1, {}, 1), ones, {}, 0.1)
    chart = curve_chart("c", "own", Store.open(tmp_path).series("x"), look, "step")
    assert chart is not None and "exactly 0" in chart.caption
    arm = next(arm for panel in chart.data["panels"] for arm in panel["arms"] if arm["name"] == "arm")
    assert arm["values"] == [[0, 0, 0, 0], [0, 0, 0, 0]] and arm["n"] == [2, 2, 2, 2]
    other = tmp_path / "map"
    store = store_of(other, {1: np.concatenate([zero, one])})
    heat = kymograph_chart("k", store.series("x"), look, "step")
    assert heat is not None and "grey: exactly 0" in heat.caption
    assert heat.data["panels"][0]["values"][0][:4] == [0, 0, 0, 0]


def test_n_falls_where_seeds_drop_out(tmp_path: Path) -> None:
    gone = np.array([1.0, 2.0, np.nan, np.nan])
    store = store_of(tmp_path, {1: gone, 2: gone, 3: np.arange(1.0, 5.0)})
    chart = curve_chart("c", "own", store.series("x"), Look("x", "x", "x", log=False), "step")
    assert chart is not None and chart.data["panels"][0]["arms"][0]["n"] == [3, 3, 1, 1]
    assert "left out from there on" in chart.caption and chart.panels[0].keys[0].note == "n = 3, 1 at the end"


@pytest.mark.parametrize("values", [[1e305, 1e-305, 1.0], [1.7e308, -1.7e308, 0.0], [5e-324, 1.0, 2.0], [5e-324] * 3])
@pytest.mark.parametrize("log", [True, False])
def test_numbers_at_the_end_of_floats_are_drawn(tmp_path: Path, values: list[float], log: bool) -> None:
    store = store_of(tmp_path, {1: np.array(values), 2: np.array(values)})
    chart = curve_chart("c", "own", store.series("x"), Look("x", "x", "x", log=log), "step")
    assert chart is None or "nan" not in str(chart.panels[0].picture)


def test_a_text_that_no_encoding_holds_breaks_no_page(tmp_path: Path) -> None:
    make_runs(tmp_path)
    store = add_failure(tmp_path, "cannot read \udcff")
    assert write_page(store, Verdicts(()), tmp_path / "r.html", now=NOW).exists()


def test_runs_that_had_not_ended_and_records_that_are_damaged_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_runs(tmp_path)
    record_plan(tmp_path, [RunSpec("own", "calm", seed, {"lr": 0.1}, 1) for seed in (42, 7, 8)])
    next(tmp_path.glob("own/wild-s42-*/summary.json")).write_text("{}")
    with pytest.raises(SystemExit) as exit_:
        main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")])
    assert exit_.value.code == 0 and "left out: " in capsys.readouterr().err
    assert "2 planned runs had not ended" in (tmp_path / "r.html").read_text()


def test_every_setting_in_which_arms_differ_is_shown_and_none_of_the_others(tmp_path: Path) -> None:
    make_runs(tmp_path, arms=["calm"], config={"lr": 0.1, "clip": 1.0})
    make_runs(tmp_path, arms=["wild"], config={"lr": 0.3, "clip": 1.0}, seeds=range(20))
    store = make_runs(tmp_path, arms=["odd"], config={"lr": 0.1, "clip": 1.0, "momentum": 0.9})
    setting = section_of(store, "own").settings[0]
    assert setting.apart.header == ("lr", "momentum") and setting.shared == (("clip", "1.0"),)
    assert dict(setting.apart.rows) == {
        "calm": (Cell("", "0.1"), Cell("", "–")),
        "odd": (Cell("", "0.1"), Cell("0.9")),
        "wild": (Cell("0.3"), Cell("", "–")),
    }, "what most arms have is the lesser text; a setting that an arm does not have is no value"
    assert "What sets the arms apart" in build_page(store, Verdicts(()), now=NOW)
    pair = section_of(store.select(arms=["calm", "wild"]), "own").settings[0].apart
    assert dict(pair.rows) == {"calm": (Cell("0.1"),), "wild": (Cell("0.3"),)}, "of two, neither is what most have"
    alone = store.select(arms=["calm"])
    assert section_of(alone, "own").settings[0].apart.rows == ()
    assert "sets the arms apart" not in build_page(alone, Verdicts(()), now=NOW)
