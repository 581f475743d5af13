from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kymograph._claims.claim import Measure, Side
from kymograph._pictures.report_page.links import link_claims, series_of
from kymograph._pictures.report_page.sections import section_of
from kymograph._pictures.report_page.verdicts import claim_view
from kymograph._runs.declaration import Declaration, SeriesDisplay
from tests.pictures.report.pages import make_runs, make_verdicts


def test_a_claim_leads_to_the_chart_of_its_series_at_its_settings_and_back(tmp_path: Path) -> None:
    make_runs(tmp_path, config={"task": 1.0})
    store = make_runs(tmp_path, config={"task": 2.0})
    own = Declaration("own")
    section = section_of(store, own)
    left = Side("wild", Measure("final_loss"), {"task": 2.0})
    verdict = make_verdicts()[0]
    verdict = replace(verdict, claim=replace(verdict.claim, left=left, right=0.5))
    view = claim_view(verdict, own)
    links = link_claims([view], [section], {"own": own})
    assert [link.to for link in links.charts[view.id]] == ["study-own-1-loss-curves"]
    assert [link.to for link in links.runs[view.id]] == ["runs-own-wild"]
    for element_id in ("study-own", "study-own-1-loss-curves", "runs-own-wild"):
        assert [(link.to, link.outcome) for link in links.claims_at(element_id)] == [(view.id, "SUPPORTED")]
    assert links.claims_at("study-own-0-loss-curves") == [], "those runs have other settings"


def test_a_number_without_a_series_leads_to_the_table(tmp_path: Path) -> None:
    store = make_runs(tmp_path, summary={"odd": 1.0})
    own = Declaration("own")
    verdict = make_verdicts()[0]
    verdict = replace(verdict, claim=replace(verdict.claim, left=Side("wild", Measure("odd")), right=0.5))
    view = claim_view(verdict, own)
    links = link_claims([view], [section_of(store, own)], {"own": own})
    assert [link.to for link in links.charts[view.id]] == ["study-own-numbers"]


def test_the_series_of_a_number_is_the_declared_one_or_the_longest_in_its_name() -> None:
    displays = (
        SeriesDisplay("stream_norm", "", "", options={"numbers": ["final_h_L"]}),
        SeriesDisplay("null_fresh", "", "", options={"observed": "deep_cosine"}),
    )
    assert (
        series_of("final_h_L", displays, []) == "stream_norm" and series_of("deep_cosine", displays, []) == "null_fresh"
    )
    assert (
        series_of("weight_norm_change_max", (), ["norm", "weight_norm", "weight_norm_change"]) == "weight_norm_change"
    )
    assert series_of("closs", (), ["loss"]) is None
