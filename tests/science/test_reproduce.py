from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import kymograph
from kymograph._claims.claim import Check, Measure, Side
from kymograph._claims.evidence import fits
from kymograph._experiments.result_text import headline_table
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.store import Store
from kymograph._studies.loading import load_study
from kymograph._studies.study import Study
from kymograph_studies import reproduce as module
from tests.conftest import QUICK_CLIPPING, QUICK_DEPTH

QUICK = {"clipping": QUICK_CLIPPING, "depth": QUICK_DEPTH, "snapshot": {"epochs": 1, "width": 16, "depth": 2},
         "calibration": {"epochs": 1, "width": 16, "depth": 2, "draws": 19}}  # fmt: skip


def small_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every study's runs small, whatever asks for them."""
    specs, arm_settings = Study.specs, Study.arm_settings

    def small(self: Study, seeds, arms=None, fields=None):
        return specs(self, seeds, arms, {**(fields or {}), **QUICK[self.name]})

    monkeypatch.setattr(Study, "specs", small)
    # The settings that are registered are those of the small runs.
    monkeypatch.setattr(Study, "arm_settings", lambda self, fields: arm_settings(self, {**fields, **QUICK[self.name]}))


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A whole `reproduce` at six seeds of small runs: its directory and what it printed."""
    out = tmp_path_factory.mktemp("reproduced")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        small_specs(patch)
        assert module.reproduce(ComputeOptions(out, "serial"), 6, quick=True) == 0
    return out, printed.getvalue()


@pytest.mark.slow
def test_everything_is_run_drawn_judged_and_told(reproduced: tuple[Path, str]) -> None:
    root, out = reproduced
    for word in ("clipping, default arms", "learnable/*", "task=orthogonal", "snapshot, default arms", "residual/zero",
                 "INVALID", "Next:", "Report  "):  # fmt: skip
        assert word in out
    rows = json.loads((root / "verdicts.json").read_text())
    assert len(rows) >= 14 and all(row["n"] == 6 or row["verdict"] == "INVALID" for row in rows)
    rare = [row for row in rows if row["claim"].startswith("rare accuracy") and row["claimed_setup"] == "script"]
    assert rare[0]["verdict"] == "INVALID" and "learned" in rare[0]["reason"]
    assert {row["registration"] for row in rows} == {"registered, interim: 6 of 10 registered seeds"}
    figures = {path.name for path in (root / "figures").rglob("*.png")}
    assert {"clipping.png", "depth-kymograph.png", "figure_snapshot_resmlp.png"} <= figures


@pytest.mark.slow
def test_the_second_time_nothing_is_computed_and_other_settings_do_not_disturb(
    reproduced: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    root, _ = reproduced
    before = json.loads((root / "verdicts.json").read_text())
    small_specs(monkeypatch)
    kymograph.run("snapshot", seeds=[42], arms=["resmlp/bp"], out=root, quiet=True, lr=0.5)
    assert module.reproduce(ComputeOptions(root, "serial"), 6, quick=True) == 0
    again = capsys.readouterr().out
    assert "were up to date" in again
    assert all(line.split(": ")[1].startswith("0 runs") for line in again.splitlines() if "runs computed" in line)
    assert json.loads((root / "verdicts.json").read_text()) == before


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_its_page_works_in_a_browser(reproduced: tuple[Path, str], width: int, theme: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="needs axe-core-python").Axe()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("the browser tests need the system's Chromium")
    path = reproduced[0] / "report.html"
    assert 100_000 < path.stat().st_size < 5_000_000
    with playwright.sync_playwright() as start:
        args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = start.chromium.launch(executable_path=chromium, args=args)
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        shown = page.locator(".claim:visible")
        total = shown.count()
        page.select_option("#by-study", "depth")
        page.select_option("#by-verdict", "INVALID")
        assert 0 < shown.count() < total
        shown.first.locator(".unfold").click()
        assert page.locator(".evidence:visible").count() == 1
        page.select_option("#by-study", "")
        page.select_option("#by-verdict", "")
        page.get_by_role("button", name="Open all studies").click()
        for chart, words in (("curves", "n = 6"), ("kymograph", "h")):
            page.locator(f"figure[id$={chart}] .plot, [id$={chart}] .plot").first.hover()
            assert words in page.locator("#tip").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        grave = [fault["id"] for fault in axe.run(page)["violations"] if fault["impact"] in ("serious", "critical")]
        browser.close()
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert complaints == [] and grave == []


def test_a_table_says_how_many_it_averaged(depth_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    table = headline_table(load_study("depth"), depth_store)
    lines = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "missing" in lines["residual/zero"] and lines["plain"].split()[1] == "3"
    assert "[" in lines["plain"], "an interval over seeds"


def test_snapshot_has_these_stages() -> None:
    controls = ("resmlp/dfa/random_targets", "resmlp/dfa/no_skip", "resmlp/dfa/bare")
    under_sgd = ("resmlp/dfa/bare/sgd", "resmlp/bp/sgd")
    for data, epochs in (("digits", 20), ("cifar10", 30)):
        found = list(module.stages(data, False, None))
        shared = {"data": data, "epochs": epochs}
        expected = [
            module.Stage("snapshot", "snapshot", fields=shared),
            module.Stage("snapshot", "snapshot-controls", controls, shared, draw=False),
            module.Stage("snapshot", "snapshot-sgd", under_sgd, {**shared, "lr": 0.03}, draw=False),
        ]
        vit = module.Stage("snapshot", "snapshot-vit", ("vit/bp", "vit/dfa"), {**shared, "epochs": 3}, most_seeds=3)
        assert [one for one in found if one.study == "snapshot"] == expected + ([vit] if data == "cifar10" else [])
        others = ["clipping", "clipping-learnable", "depth", "depth-orthogonal"] if data == "digits" else []
        names = ["snapshot", "snapshot-controls", "snapshot-sgd", "calibration"]
        assert [one.name for one in found] == others + names + (["snapshot-vit"] if data == "cifar10" else [])


@pytest.mark.parametrize("name", ["clipping", "depth", "snapshot", "calibration"])
def test_the_stages_have_every_run_that_a_claim_needs(name: str) -> None:
    """On digits; but ViT-Mini is trained on CIFAR-10 only."""
    study = load_study(name)
    planned = [
        spec
        for data in ("digits", "cifar10")
        for stage in module.stages(data, False, None)
        if stage.study == name and (data == "digits" or stage.arms == module.VIT)
        for spec in study.specs([42], stage.arms, stage.fields)
    ]
    for claim in study.claims():
        for one in claim.every_side:
            assert any(fits(spec, one) for spec in planned), f"{claim.name}: {one}"


def test_a_new_claim_brings_its_arms_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study("snapshot")
    present, measure = study.claims(), Measure("final_h_L")
    claim = present[0]
    new = [
        replace(claim, left=Side("conv/dfa", measure), right=Side("resmlp/dfa", measure)),
        replace(claim, left=Side("resmlp/dfa", measure, {"lr": 0.1, "epochs": 5}), right=1.0),
        replace(claim, checks=(Check("it ran", Side("resmlp/frozen", measure, {"lr": 0.03}), least=0.0),)),
    ]
    monkeypatch.setattr(type(study), "claims", lambda _: [*present, *new])
    controls, sgd, added = module.claimed_stages(study, module.VIT, {"data": "digits", "epochs": 20})
    assert controls.arms is not None and controls.arms[-1] == "conv/dfa" and "resmlp/dfa" not in controls.arms
    assert sgd.arms == ("resmlp/dfa/bare/sgd", "resmlp/bp/sgd", "resmlp/frozen") and sgd.fields["lr"] == 0.03
    assert added.arms == ("resmlp/dfa",) and added.fields == {"data": "digits", "epochs": 5, "lr": 0.1}


def test_the_rule_family_is_no_part_of_a_plain_reproduce() -> None:
    assert "rule-family" not in {
        stage.study for data in ("digits", "cifar10") for stage in module.stages(data, False, None)
    }


def test_on_images_that_are_not_its_own_the_rule_family_is_two_networks_and_three_seeds() -> None:
    here, there = module.default_stage("rule-family", "digits"), module.default_stage("rule-family", "cifar10")
    assert here.arms is None and here.most_seeds is None and here.fields == {}
    assert there.most_seeds == 3 and there.fields == {"data": "cifar10"}
    study = load_study("rule-family")
    specs = study.specs([1], there.arms, there.fields)
    assert {spec.config.network for spec in specs} == {"mlp", "conv"} and {spec.config.epochs for spec in specs} == {5}
    assert {spec.arm for spec in specs} >= {"mlp/shallow", "conv/shallow"}, "head only is in every table"
    assert module.default_stage("snapshot", "cifar10").fields == {"data": "cifar10"}
