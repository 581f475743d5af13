"""The panel of sources of variance, alone and on the page."""

from __future__ import annotations

import re
from pathlib import Path

from kymograph._claims.registration import REGISTRATION
from kymograph._claims.verdict import Verdicts
from kymograph._experiments.stages import ComputeOptions
from kymograph._pictures.report_page.charts import Chart, ChartRequest
from kymograph._pictures.report_page.page import build_page
from kymograph._pictures.report_page.sections import PANELS, section_of
from kymograph._pictures.report_page.svg import Frame
from kymograph._runs.declaration import Declaration, SeriesDisplay
from kymograph._runs.log import Log
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._streams import fixed_seeds
from kymograph_studies.variance import vary_sources
from tests.pictures.report.pages import HOSTILE_ARM, NOW, Outline, make_runs
from tests.records import write_record
from tests.science.test_variance_sources import normal, write
from tests.studies.varying import REFERENCE

FRAME = Frame()
OWN = Declaration("own", version=1, headlines={"x": "x"}, stored=True)


def draw(store: Store, **headlines: str) -> Chart | None:
    display = SeriesDisplay("", "own", "", options={"headlines": headlines} if headlines else {})
    return PANELS.load("variance")(ChartRequest("own-variance", store, display))


def drawn(root: Path, **headlines: str) -> Chart:
    chart = draw(Store.open(root), **headlines)
    assert chart is not None
    return chart


def test_it_is_a_part_that_compares_the_settings_of_a_study_and_comes_after_the_others() -> None:
    part = PANELS.part("variance")
    assert part.properties["scope"] == "study" and PANELS.names()[-1] == "variance"


def test_a_directory_in_which_sources_were_varied_is_shown_as_the_command_prints_it(tmp_path: Path) -> None:
    done = vary_sources(REFERENCE, fixed_seeds(10), ComputeOptions(tmp_path, "serial", quiet=True))
    chart = drawn(tmp_path, size="size", tilt="tilt")
    assert [panel.title for panel in chart.panels] == ["size", "tilt"]
    assert [(key.name, key.note) for key in chart.panels[0].keys] == [("learned", "n = 10"), ("exact", "n = 10")]
    assert "sd of ln size" in chart.panels[0].picture and "sd of tilt" in chart.panels[1].picture
    assert chart.panels[0].picture.count("does nothing</text>") == 1
    rows = {(row[0], row[1], row[3]): row for row in chart.data["rows"]}
    for arm in done.arms:
        for number in arm.numbers:
            for spread in number.sources:
                row = dict(zip(chart.data["columns"], rows[arm.name, number.label, spread.source], strict=True))
                assert row["sd"] == float(f"{spread.sd:.5g}") and row["n"] == spread.n
                assert row["scale"] == ("ln" if number.log else "as it is"), "the registered claims say so"
                assert row["varies it most"] == (number.dominant or "undecided")
    assert "initialisation varies size most" in chart.caption and "feedback does nothing" in chart.caption
    assert "no source clearly dominates tilt" in chart.caption
    assert "chi-square, assuming normality" in chart.caption and "0.1 for ln x is about 10 %" in chart.caption


def test_one_source_is_nothing_to_show(tmp_path: Path) -> None:
    write(tmp_path, "all", normal(1.0))
    assert draw(Store.open(tmp_path), x="x") is None
    write(tmp_path, "order", normal(1.0))
    assert draw(Store.open(tmp_path), x="x") is not None
    assert draw(Store.open(tmp_path)) is None, "no numbers are named"


def test_an_arm_keeps_its_colour_where_others_lack_the_number(tmp_path: Path) -> None:
    for source in ("order", "feedback"):
        write(tmp_path, source, normal(1.0, "x"), arm="first")
        write(tmp_path, source, lambda seed: {"x": float(seed), "y": float(seed)}, arm="second")
    x, y = drawn(tmp_path, x="x", y="y").panels
    assert [(key.name, key.colour) for key in x.keys] == [("first", 0), ("second", 1)]
    assert [(key.name, key.colour) for key in y.keys] == [("second", 1)]
    assert "dot c0" not in y.picture and y.picture.count("dot c1") == 2


def test_more_arms_than_colours_are_spread_over_pictures(tmp_path: Path) -> None:
    for arm in "abcdefgh":
        for source in ("order", "feedback"):
            write(tmp_path, source, normal(1.0), arm=arm, n=2)
    chart = drawn(tmp_path, x="x")
    assert [panel.title for panel in chart.panels] == ["x, arms 1 to 4 of 8", "x, arms 5 to 8 of 8"]


def test_enormous_intervals_do_not_hide_the_dots(tmp_path: Path) -> None:
    for source in ("order", "feedback"):
        write(tmp_path, source, lambda seed: {"x": float(seed)}, n=2)
    chart = drawn(tmp_path, x="x")
    assert "touches the frame" in chart.caption
    picture = chart.panels[0].picture
    dots = [float(at) for at in re.findall(r'<circle [^>]*cx="([\d.]+)"', picture)]
    ends = [float(at) for at in re.findall(r'<line class="mean c0" [^>]*x2="([\d.]+)"', picture)]
    left, right = 88.0, FRAME.width - FRAME.right
    assert all(at > left + 0.2 * (right - left) for at in dots) and max(ends) <= right + 0.01


def test_numbers_that_never_vary_and_hostile_names_are_drawn(tmp_path: Path) -> None:
    for source in ("order", "feedback"):
        write(tmp_path, source, lambda seed: {"x": 1.0, "seed": seed}, arm=HOSTILE_ARM)
    chart = drawn(tmp_path, x="<b>x</b>")
    assert "nan" not in chart.panels[0].picture and "<b>" not in chart.panels[0].picture
    assert HOSTILE_ARM not in chart.panels[0].picture and "no source clearly dominates" in chart.caption
    assert [row[-2:] for row in chart.data["rows"]] == [["undecided", None]] * 2


def test_the_page_shows_sources_of_variance_where_some_were_varied(tmp_path: Path) -> None:
    vary_sources(REFERENCE, fixed_seeds(3), ComputeOptions(tmp_path, "serial", quiet=True))
    outline = Outline(build_page(Store.open(tmp_path), Verdicts(()), now=NOW))
    assert "study-varying-variance" in [attributes.get("id") for tag, attributes in outline.elements if tag == "figure"]
    (chart,) = [chart for chart in outline.charts() if chart["kind"] == "table"]
    assert {row[3] for row in chart["rows"]} == {"all", "initialisation", "order", "feedback"}
    assert outline.text.index("Sources of variance") < outline.text.index("vary: its default")
    assert outline.text.index("vary: its default") < outline.text.index("vary: feedback"), "the default comes first"


def test_a_study_without_varied_sources_has_no_such_chart(tmp_path: Path) -> None:
    page = build_page(make_runs(tmp_path), Verdicts(()), now=NOW)
    assert "Sources of variance" not in page


def test_superseded_runs_are_no_source(tmp_path: Path) -> None:
    write(tmp_path, "order", normal(1.0))
    for seed in range(5):
        earlier = RunSpec("own", "arm", seed, {"vary": "feedback"}, 0)
        write_record(tmp_path, earlier, RunResult({}, {"x": seed}), {}, 0.1)
    assert section_of(Store.open(tmp_path), OWN).charts == ()
    write(tmp_path, "feedback", normal(1.0))
    (chart,) = section_of(Store.open(tmp_path), OWN).charts
    assert {row[4] for row in chart.data["rows"]} == {10}


def test_what_stands_in_the_way_of_the_chart_is_said(tmp_path: Path) -> None:
    for source in ("order", "feedback"):
        write(tmp_path, source, normal(1.0))
    Log.read(tmp_path).append(REGISTRATION, {"study": "own"})
    section = section_of(Store.open(tmp_path), OWN)
    assert section.charts == () and "cannot be read" in section.notes[0]
