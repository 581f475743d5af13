"""Sources of variance on the page."""

from __future__ import annotations

from pathlib import Path

from kymograph.claims.verdict import Verdicts
from kymograph.experiments.stages import SweepOptions
from kymograph.pictures.report.page import build_page
from kymograph.pictures.report.sections import section_of
from kymograph.runs.declaration import Declaration
from kymograph.runs.record import RunResult, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.streams import fixed_seeds
from kymograph_studies.variance import vary_sources
from tests.pictures.report.pages import NOW, Outline, make_runs
from tests.pictures.report.test_variance_sources import normal, write
from tests.studies.varying import REFERENCE

OWN = Declaration("own", version=1, headlines={"x": "x"}, stored=True)


def test_the_page_shows_sources_of_variance_where_some_were_varied(tmp_path: Path) -> None:
    vary_sources(REFERENCE, fixed_seeds(3), SweepOptions(tmp_path, "serial", quiet=True))
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
    (tmp_path / "claims.json").write_text("{}")
    section = section_of(Store.open(tmp_path), OWN)
    assert section.charts == () and "claims.json" in section.notes[0]
