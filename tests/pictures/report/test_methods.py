from __future__ import annotations

from pathlib import Path

import pytest

from kymograph._claims.verdict import Verdicts
from kymograph._cli.main import main
from kymograph._pictures.report_page.methods import methods, missing
from kymograph._pictures.report_page.page import build_page
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Damaged
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._studies.loading import list_studies
from tests.pictures.live.stage import plan
from tests.pictures.report.pages import NOW, declaring, make_runs


def planned(seed: int, arm: str = "calm", lr: float = 0.1, version: int = 1, source: str | None = None) -> RunSpec:
    return RunSpec("own", arm, seed, {"lr": lr}, version, source)


def test_missing_runs_are_planned_with_the_settings_of_stored_ones_and_by_the_current_code(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    wanted = planned(7)
    lost = planned(8)
    plan = [planned(42), wanted, lost, planned(9, lr=0.5), planned(9, arm="other"), planned(9, version=0)]
    damaged = [Damaged("own", "calm", 8, lost.id, "cut off")]
    assert missing(store, {}, damaged, plan) == [wanted]
    assert missing(store, {"own": Declaration("own", version=2, stored=True)}, damaged, plan) == [], (
        "all of it is superseded"
    )
    assert missing(store, {"own": Declaration("own", version=1, source="x", stored=True)}, damaged, plan) == []


def test_the_plan_handed_in_is_used_and_no_other_is_read(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    assert "had not ended" not in build_page(store, Verdicts(()), now=NOW)
    assert "1 planned run had not ended" in build_page(
        declaring(store, {}, planned=[planned(7)]), Verdicts(()), now=NOW
    )
    plan(tmp_path, [planned(7), planned(8)])
    assert "2 planned runs had not ended" in build_page(Store.open(tmp_path), Verdicts(()), now=NOW)
    assert "had not ended" not in build_page(declaring(store, {}, planned=[]), Verdicts(()), now=NOW)


def test_superseded_and_damaged_runs_are_counted_and_listed(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    declared = {"own": Declaration("own", version=2, stored=True)}
    damaged = [Damaged("own", "calm", 8, "ab", "its <file> is cut off")]
    exclusions = dict(methods(store, Verdicts(()), declared, damaged, []))["Exclusions"]
    assert "6 runs were superseded" in exclusions and "1 record was damaged" in exclusions
    page = build_page(declaring(store, declared, damaged=damaged), Verdicts(()), now=NOW)
    assert "Damaged records" in page and "its &lt;file&gt; is cut off" in page and ", 1 damaged" in page


def test_runs_that_had_not_ended_and_damaged_records_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_runs(tmp_path)
    plan(tmp_path, [planned(seed) for seed in (42, 7, 8)])
    next(tmp_path.glob("own/wild-s42-*/summary.json")).write_text("{}")
    with pytest.raises(SystemExit) as exit_:
        main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")])
    assert exit_.value.code == 0 and "left out: " in capsys.readouterr().err
    assert "2 planned runs had not ended" in (tmp_path / "r.html").read_text()


def test_what_is_said_of_random_numbers_is_what_the_studies_declare(tmp_path: Path) -> None:
    """It used to be said of every study that its random numbers come from named generators."""
    make_runs(tmp_path)
    store = make_runs(tmp_path, study="other")

    def runs(**said: str) -> str:
        declared = {name: Declaration(name, methods=said.get(name, "")) for name in ("own", "other")}
        return dict(methods(store, Verdicts(()), declared, [], []))["Runs"]

    assert "andom" not in runs() and "paired" not in runs()
    assert runs(own="Seeds set all.").endswith(" own: Seeds set all.")
    both = runs(own="Seeds set all.", other="Seeds set all.")
    assert both.endswith(" 456. Seeds set all.")
    assert both.count("42, 123, 456") == 1, "seeds that all studies share are listed once"
    assert all("generators" in study.declaration().methods for study in list_studies())
