"""The page in a browser: opened from disk, without a network, read by mouse, keyboard and without JavaScript."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kymograph.report.page import build_page
from kymograph.runs.store import Store
from tests.report.pages import HOSTILE_ARM, HOSTILE_CLAIM, make_runs, make_verdicts

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need the system's Chromium")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with every kind of chart and verdict, and with texts that try to become markup."""
    root = tmp_path_factory.mktemp("page")
    make_runs(root / "runs", arms=("calm", "wild", HOSTILE_ARM))
    make_runs(root / "runs", study="depth", arms=[f"a_rather_long_name/of_an_arm/{n}" for n in range(7)], sites=6)
    path = root / "report.html"
    path.write_text(build_page(Store.open(root / "runs"), make_verdicts(), now="2030-01-02 03:04 UTC"))
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as start:
        browser = start.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


class Visit:
    """An open page, and everything it asked of the network or complained about."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_it_opens_from_disk_asks_nothing_of_the_network_and_runs_no_foreign_script(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        visit.page.click("#unfold")
        asked = [url for url in visit.requests if not url.startswith("data:")]
        assert asked == [address] and visit.complaints == []
        assert visit.page.locator("img").count() == 0
        assert visit.page.get_by_text(HOSTILE_CLAIM).count() > 0 and visit.page.get_by_text(HOSTILE_ARM).count() > 0


def test_claims_are_filtered_by_study_and_by_verdict(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        shown = page.locator(".claim:visible")
        assert shown.count() == 5
        page.select_option("#by-verdict", "REFUTED")
        assert shown.count() == 1 and "doubles" in shown.inner_text()
        assert page.locator("#shown").inner_text() == "1 of 5 claims"
        page.select_option("#by-study", "other")
        assert shown.count() == 0 and page.locator("#none-shown").is_visible()
        page.select_option("#by-verdict", "")
        assert shown.count() == 1
        page.select_option("#by-study", "")
        assert shown.count() == 5


def test_evidence_unfolds_by_click_and_by_key(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        evidence, button = page.locator("#claim-0-evidence"), page.locator("#claim-0 .unfold")
        assert not evidence.is_visible() and button.get_attribute("aria-expanded") == "false"
        page.locator("#claim-0 td").nth(7).click()
        assert evidence.is_visible() and button.get_attribute("aria-expanded") == "true"
        button.focus()
        page.keyboard.press("Enter")
        assert not evidence.is_visible() and button.get_attribute("aria-expanded") == "false"
        page.keyboard.press("Enter")
        evidence.locator(".seed").first.hover()
        assert page.locator("#tip").inner_text().startswith("seed 42: 1.5 against 1, difference 0.5")


def test_hovering_and_arrow_keys_read_curves_and_kymographs(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        tip = page.locator("#tip")
        page.locator("#study-own-loss-curves .plot").hover()
        text = tip.inner_text()
        assert all(part in text for part in ("training step", "mean ", "n = 3", "42:", "123:", "456:", "● seed"))
        assert page.locator("#study-own-loss-curves .thread").count() == 3
        page.mouse.move(5, 5)
        assert not tip.is_visible() and page.locator(".thread").count() == 0
        plot = page.locator("#study-own-stream-kymograph .plot").nth(2)
        plot.hover()
        text = tip.inner_text()
        assert text.startswith("wild") and "h_" in text and "n = 3" in text
        plot.focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#readout").inner_text()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert "step 0, h_0" in first and "step 1, h_1" in page.locator("#readout").inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert visit.complaints == []


@pytest.mark.parametrize(
    ("chart", "rows"), [("#study-own-loss-curves", 3 * 6 * 12), ("#study-own-stream-kymograph", 3 * 12 * 4)]
)
def test_data_are_saved_as_csv(browser: Any, address: str, tmp_path: Path, chart: str, rows: int) -> None:
    with Visit(browser, address) as visit:
        with visit.page.expect_download() as download:
            visit.page.locator(f"{chart} .csv").click()
        download.value.save_as(tmp_path / "data.csv")
        with (tmp_path / "data.csv").open() as file:
            table = list(csv.DictReader(file))
        assert len(table) == rows and {row["arm"] for row in table} == {"calm", "wild", HOSTILE_ARM}
        assert all(float(row["value"]) > 0 for row in table)


def test_no_arm_becomes_a_formula_in_a_spreadsheet(browser: Any, tmp_path: Path) -> None:
    store = make_runs(tmp_path / "runs", arms=("-1+cmd", "=SUM(1)", "-0.5"))
    (tmp_path / "report.html").write_text(build_page(store, make_verdicts(), now="2030-01-02 03:04 UTC"))
    with Visit(browser, (tmp_path / "report.html").as_uri()) as visit:
        with visit.page.expect_download() as download:
            visit.page.locator("#study-own-loss-curves .csv").click()
        download.value.save_as(tmp_path / "data.csv")
    with (tmp_path / "data.csv").open() as file:
        assert {row["arm"] for row in csv.DictReader(file)} == {"'-1+cmd", "'=SUM(1)", "-0.5"}


def test_the_theme_follows_the_system_until_the_reader_chooses(browser: Any, address: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, address, color_scheme="dark") as visit:
        dark = visit.page.evaluate(background)
        visit.page.click("#theme")
        light = visit.page.evaluate(background)
        assert dark != light == "rgb(255, 255, 255)"
        assert visit.page.locator("#theme").inner_text() == "Dark theme"


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_page(browser: Any, address: str, width: int) -> None:
    with Visit(browser, address, viewport={"width": width, "height": 900}) as visit:
        visit.page.click("#unfold")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        inside = visit.page.evaluate(
            "Array.from(document.querySelectorAll('h1,h2,h3,h4,p,button,select,dd,dt,svg,.legend li,.claim'))"
            ".filter(e => !e.closest('.scroll,.unseen,.skip') && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map(e => e.outerHTML.slice(0, 80))"
        )
        assert inside == []


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        pytest.param(1280, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(390, "dark", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_no_grave_fault(browser: Any, address: str, width: int, theme: str) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="needs axe-core-python").Axe()
    with Visit(browser, address, viewport={"width": width, "height": 900}, color_scheme=theme) as visit:
        visit.page.click("#unfold")
        found = axe.run(visit.page)["violations"]
        grave = [
            (fault["id"], fault["nodes"][0]["html"][:200])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert grave == []


def test_without_javascript_pictures_and_evidence_show(browser: Any, address: str) -> None:
    with Visit(browser, address, java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator(".evidence:visible").count() == 5
        assert page.locator("figure .plot svg:visible").count() == page.locator("figure .plot svg").count() > 10
        assert page.locator(".mean:visible").count() > 3 and page.locator("image:visible").count() > 3
        assert page.locator(".needs-js:visible").count() == 0


def test_on_paper_everything_is_unfolded_and_the_page_is_white(browser: Any, address: str) -> None:
    with Visit(browser, address, color_scheme="dark") as visit:
        visit.page.emulate_media(media="print")
        visit.page.set_viewport_size({"width": 700, "height": 1000})  # A4 less its margins
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 700
        assert visit.page.locator(".evidence:visible").count() == 5
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert visit.page.locator("#theme:visible").count() == 0
