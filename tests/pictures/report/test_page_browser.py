"""The page in a browser: opened from disk, without a network, read by mouse, keyboard and without JavaScript."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kymograph._claims.verdict import Verdicts
from kymograph._pictures.report_page.assets import template
from kymograph._pictures.report_page.page import build_page
from kymograph._rounding import number_text
from kymograph._runs.store import Store
from tests.pictures.report.pages import (
    HOSTILE_ARM,
    HOSTILE_CLAIM,
    llama_sites,
    make_networks,
    make_runs,
    make_verdicts,
)

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need the system's Chromium")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with every kind of chart and verdict, and with texts that try to become markup."""
    root = tmp_path_factory.mktemp("page")
    make_runs(root / "runs", arms=("calm", "wild", HOSTILE_ARM))
    make_runs(root / "runs", study="depth", arms=[f"a_rather_long_name/of_an_arm/{n}" for n in range(7)], sites=6)
    make_networks(root / "runs", {"three": llama_sites(3), "four": llama_sites(4), "plain": list("abcd")})
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
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        )
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(address)

    def open_studies(self) -> None:
        self.page.click("#studies")

    def claim(self, name: str) -> Any:
        return self.page.locator(f'.claim[data-claim="{name}"]')

    def evidence(self, name: str) -> Any:
        return self.page.locator(f"#{self.claim(name).get_attribute('id')}-evidence")

    def downloaded(self, selector: str) -> tuple[str, bytes]:
        with self.page.expect_download() as download:
            self.page.locator(selector).click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()

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
        assert page.locator("#shown").inner_text() == "1 of 5 shown"
        page.select_option("#by-study", "other")
        assert shown.count() == 0 and page.locator("#none-shown").is_visible()
        page.select_option("#by-verdict", "")
        assert shown.count() == 1
        page.select_option("#by-study", "")
        assert shown.count() == 5


def test_refuted_claims_come_first_in_one_plot_with_effect_interval_and_margin(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        rows = visit.page.locator(".claim")
        first = rows.first
        assert first.get_attribute("data-verdict") == "REFUTED"
        assert first.locator(".forest .mark.refuted").count() == 1 and first.locator(".forest .limit").count() == 2
        assert first.locator(".forest .whisker.refuted").count() == 3, "a line and its two ends"
        box = first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900, "on the first screen"
        assert visit.page.evaluate("document.documentElement.scrollHeight") < 6000
        assert visit.page.locator("details.study[open]").count() == 0


def test_words_are_explained_to_pointer_keyboard_and_without_a_script(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page, tip = visit.page, visit.page.locator("#tip")
        visit.claim("doubles").locator(".verdict").hover()
        assert "REFUTED: The runs show the opposite" in tip.inner_text()
        visit.claim("doubles").locator(".warn").hover()
        assert "after runs that it is judged on existed" in tip.inner_text()
        page.mouse.move(5, 5)
        assert not tip.is_visible()
        page.locator("#search").focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        assert tip.is_visible(), "a word that has the focus is explained"
        page.keyboard.press("Escape")
        assert not tip.is_visible()
    with Visit(browser, address, java_script_enabled=False) as visit:
        visit.page.locator(".words summary").click()
        assert "post hoc" in visit.page.locator(".words").inner_text()


def test_search_filters_and_order_are_in_the_address(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page, shown = visit.page, visit.page.locator(".claim:visible")
        page.fill("#search", "wild arm rises")
        assert shown.count() == 1 and "rises" in shown.inner_text() and "q=wild+arm+rises" in page.url
        page.click("#reset")
        page.locator("button.count", has_text="SUPPORTED").click()
        assert shown.count() == 1 and page.url.endswith("#?verdict=SUPPORTED")
        page.click("#reset")
        page.locator("th[data-sort=claim] button").click()
        names = [row.get_attribute("data-claim") for row in page.locator(".claim").all()]
        assert names == sorted(names, key=str.lower) and "sort=claim" in page.url
        assert page.locator("th[data-sort=claim]").get_attribute("aria-sort") == "ascending"
        assert page.locator(".claim").first.evaluate("e => e.nextElementSibling.classList.contains('evidence')")
        page.select_option("#by-study", "own")
        kept = page.url
        page.goto("about:blank")
        page.goto(kept)
        assert page.locator("#by-study").input_value() == "own" and shown.count() == 4
        assert [row.get_attribute("data-claim") for row in shown.all()] == ["doubles", "perhaps", "rises", "same"]


def test_a_claim_has_an_address_and_leads_to_its_chart_and_its_runs_and_back(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        identity = visit.claim("rises").get_attribute("id")
    with Visit(browser, f"{address}#{identity}") as visit:
        page, evidence = visit.page, visit.evidence("rises")
        assert evidence.is_visible() and visit.claim("rises").evaluate("e => e.getBoundingClientRect().top") < 500
        evidence.get_by_role("link", name="loss", exact=True).click()
        chart = page.locator("#study-own-loss-curves")
        assert chart.locator("svg").first.is_visible(), "the study was opened"
        assert 0 <= chart.evaluate("e => e.getBoundingClientRect().top") < 500
        chart.locator(".backlinks summary").click()
        chart.locator(".backlinks a", has_text="rises").click()
        assert page.url.endswith(f"#{identity}")
        evidence.get_by_role("link", name="wild", exact=True).click()
        runs = page.locator("#runs-own-wild")
        assert runs.is_visible() and "42:" in runs.inner_text() and runs.locator(".backlinks").count() == 1


def test_evidence_unfolds_by_click_and_by_key(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page, evidence = visit.page, visit.evidence("rises")
        button = visit.claim("rises").locator(".unfold")
        assert not evidence.is_visible() and button.get_attribute("aria-expanded") == "false"
        visit.claim("rises").locator("td").nth(4).click()
        assert evidence.is_visible() and button.get_attribute("aria-expanded") == "true"
        button.focus()
        page.keyboard.press("Enter")
        assert not evidence.is_visible() and button.get_attribute("aria-expanded") == "false"
        page.keyboard.press("Enter")
        evidence.locator(".seed").first.hover()
        assert page.locator("#tip").inner_text().startswith("seed 42: wild 1.5, calm 1; difference 0.5")


def test_hovering_and_arrow_keys_read_curves_and_kymographs(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        visit.open_studies()
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
        assert text.startswith("wild") and "h_" in text and "n = 3" in text and "times the start" in text
        plot.focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#readout").inner_text()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert "step 0, h_0" in first and "step 1, h_1" in page.locator("#readout").inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert visit.complaints == []


def test_a_cell_is_read_with_its_full_name_its_value_or_its_state(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        page = visit.page
        visit.open_studies()
        plot = page.locator("#study-net-output_gradient_norm-kymograph .plot").nth(2)  # "three"
        plot.focus()
        page.keyboard.press("ArrowRight")
        read = []
        for _ in range(34):
            read.append(page.locator("#readout").inner_text())
            page.keyboard.press("ArrowDown")
        assert "step 0, model.layers.0: " in read[0] and "output gradient norm, n = 2" in read[0]
        at = {line.split(", ")[1].split(":")[0]: line for line in read}
        assert at["model.layers.1.self_attn.v_proj"].endswith(": exactly 0 output gradient norm, n = 2")
        assert at["model.layers.2.self_attn.k_proj"].endswith(": not measured, not finite, or no gradient")
        assert at["model.layers.3"].endswith(": no such layer"), "the other arm has it"
        title = plot.locator("text", has_text="self_attn.q_proj").locator("title")
        assert title.text_content() == "model.layers.*.self_attn.q_proj: 4 layers"
        zero = plot.locator("rect[mask]").first
        assert zero.is_visible() and zero.get_attribute("fill").startswith("url(#study-net-")
        assert visit.complaints == []


def test_files_of_many_maps_have_every_layer_and_no_absent_one(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        visit.open_studies()
        for chart in ("kymograph", "profile"):
            _, content = visit.downloaded(f"#study-net-output_norm-{chart} .csv")
            table = list(csv.DictReader(io.StringIO(content.decode())))
            for arm, sites in (("three", llama_sites(3)), ("four", llama_sites(4)), ("plain", "abcd")):
                ran = {site for site in sites if not site.endswith("drop")}
                assert {row["site"] for row in table if row["arm"] == arm} == ran
        _, content = visit.downloaded("#study-net-output_gradient_norm-kymograph .svg")
        for part in (b"<pattern", b"<mask", b"<linearGradient", b"no such layer", b"exactly 0", b"pixelated"):
            assert part in content, part


@pytest.mark.slow
def test_a_kymograph_can_be_shown_relative_to_its_start(browser: Any, address: str) -> None:
    with Visit(browser, address) as visit:
        visit.open_studies()
        chart = visit.page.locator("#study-own-stream-kymograph")
        assert chart.locator(".view.as-measured").first.is_visible()
        chart.locator(".relative").first.click()
        assert chart.locator("image.view.relative").first.is_visible()
        assert not chart.locator("image.view.as-measured").first.is_visible()
        assert "relative to the start" in chart.locator(".bar").inner_text()
        signed = visit.page.locator("#study-own-cosine-kymograph")
        assert signed.locator(".relative").count() == 0, "there is no ratio of signed numbers"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chart", "rows"), [("#study-own-loss-curves", 3 * 6 * 12), ("#study-own-stream-kymograph", 3 * 12 * 4)]
)
def test_data_are_saved_as_csv(browser: Any, address: str, chart: str, rows: int) -> None:
    with Visit(browser, address) as visit:
        visit.open_studies()
        _, content = visit.downloaded(f"{chart} .csv")
        table = list(csv.DictReader(io.StringIO(content.decode())))
        assert len(table) == rows and {row["arm"] for row in table} == {"calm", "wild", HOSTILE_ARM}
        assert all(float(row["value"]) > 0 for row in table)


def test_everything_can_be_taken_along(browser: Any, address: str) -> None:
    with Visit(browser, address, permissions=["clipboard-read", "clipboard-write"]) as visit:
        name, content = visit.downloaded("#all-verdicts")
        verdicts = json.loads(content)
        assert name == "verdicts.json" and [row["verdict"] for row in verdicts].count("REFUTED") == 1
        assert len(verdicts[0]["points"]) == 10
        _, content = visit.downloaded("#all-data")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            assert archive.testzip() is None
            names = archive.namelist()
            assert json.loads(archive.read("verdicts.json")) == verdicts
            loss = list(csv.DictReader(io.StringIO(archive.read("study-own-loss-curves.csv").decode())))
            assert len(loss) == 3 * 6 * 12 and len([one for one in names if one.startswith("claim-")]) == 4
        visit.open_studies()
        name, content = visit.downloaded("#study-own-loss-curves .svg")
        assert name.endswith(".svg") and content.startswith(b"<svg") and b"stroke-dasharray" in content
        assert b"calm" in content and b'class="hit"' not in content, "with its legend"
        visit.page.click(".downloads .copy")
        copied = visit.page.evaluate("navigator.clipboard.readText()")
        assert copied == visit.page.locator("#citation").inner_text() and "Kymograph contributors" in copied


def test_an_arm_has_one_colour_and_dash_on_the_whole_page(browser: Any, address: str) -> None:
    look = "e => { const s = getComputedStyle(e); return s.stroke + ' ' + s.strokeDasharray; }"
    with Visit(browser, address) as visit:
        visit.open_studies()
        section = visit.page.locator("#study-depth")
        legend = [one.evaluate(look) for one in section.locator(".arms-legend .mean").all()]
        assert len(set(legend)) == len(legend) == 7
        assert section.locator(".other").count() > 0, "the arms of other panels are grey"
        drawn = [one.evaluate(look) for one in section.locator("#study-depth-loss-curves .plot .mean").all()]
        assert drawn == legend


def test_numbers_are_written_as_python_writes_them(browser: Any, address: str) -> None:
    values = [0.0, 1.0, -1.5e-7, 12345.678, 0.00012345, 999999.6, 1e9, -1e6, 123456.0, 0.1 + 0.2, 1e-4, 9.99996e-5]
    script = template("number.js")
    with Visit(browser, address) as visit:
        found = visit.page.evaluate(f"values => {{ {script}; return values.map((value) => number(value)); }}", values)
    assert found == [number_text(value, 4, typeset=True) for value in values]


@pytest.mark.slow
def test_no_arm_becomes_a_formula_in_a_spreadsheet(browser: Any, tmp_path: Path) -> None:
    store = make_runs(tmp_path / "runs", arms=("-1+cmd", "=SUM(1)", "-0.5"))
    (tmp_path / "report.html").write_text(build_page(store, make_verdicts(), now="2030-01-02 03:04 UTC"))
    with Visit(browser, (tmp_path / "report.html").as_uri()) as visit:
        _, content = visit.downloaded("#study-own-loss-curves .csv")
    assert {row["arm"] for row in csv.DictReader(io.StringIO(content.decode()))} == {"'-1+cmd", "'=SUM(1)", "-0.5"}


def test_the_theme_follows_the_system_until_the_reader_chooses(browser: Any, address: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, address, color_scheme="dark") as visit:
        dark = visit.page.evaluate(background)
        visit.page.click("#theme")
        light = visit.page.evaluate(background)
        assert dark != light == "rgb(255, 255, 255)"
        assert visit.page.locator("#theme").inner_text() == "Dark theme"


@pytest.mark.parametrize(
    "width", [pytest.param(320, marks=pytest.mark.slow), 390, pytest.param(768, marks=pytest.mark.slow), 1280]
)
def test_nothing_is_wider_than_the_page(browser: Any, address: str, width: int) -> None:
    with Visit(browser, address, viewport={"width": width, "height": 900}) as visit:
        visit.page.click("#unfold")
        visit.open_studies()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        inside = visit.page.evaluate(
            "Array.from(document.querySelectorAll('h1,h2,h3,h4,p,button,select,dd,dt,svg,.legend li,.claim'))"
            ".filter(e => !e.closest('.scroll,.unseen,.skip,nav') && e.getBoundingClientRect().right > innerWidth + 1)"
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
        visit.open_studies()
        visit.page.click(".words summary")
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
        assert page.locator(".evidence:visible").count() == 5 and page.locator(".forest svg:visible").count() == 6
        for study in page.locator("details.study > summary").all():
            study.click()
        assert page.locator("figure .plot svg:visible").count() == page.locator("figure .plot svg").count() > 10
        assert page.locator(".mean:visible").count() > 3 and page.locator("image:visible").count() > 3
        assert page.locator(".needs-js:visible").count() == 0


def test_on_paper_there_are_the_summary_and_the_studies_that_were_opened(browser: Any, address: str) -> None:
    with Visit(browser, address, color_scheme="dark") as visit:
        page = visit.page
        page.locator("#study-own summary").first.click()
        visit.claim("rises").locator(".unfold").click()
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 700, "height": 1000})  # A4 less its margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 700
        assert page.locator(".claim:visible").count() == 5 and page.locator(".evidence:visible").count() == 1
        assert page.locator("#study-own figure:visible").count() == 5
        assert not page.locator("#study-depth").is_visible(), "it was folded"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("#theme:visible").count() == 0
        over = page.evaluate(OVERPRINTED)
        assert over == []


# Cells of the table of claims whose content reaches beyond them, and words that reach beyond their picture.
SPILLED = """(() => {
  const beyond = (e, frame) => {
    const inner = e.getBoundingClientRect(), outer = frame.getBoundingClientRect();
    return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
  };
  const cells = [...document.querySelectorAll(".verdicts td.number span")].filter((e) => beyond(e, e.parentElement));
  const words = [...document.querySelectorAll(".forest svg text.absent")].filter((e) => beyond(e, e.closest("svg")));
  return [...cells, ...words].map((e) => e.textContent);
})()"""


@pytest.mark.parametrize(("width", "media"), [(1280, "screen"), (390, "screen"), (700, "print")])
def test_effects_and_words_stay_in_their_cells(browser: Any, tmp_path: Path, width: int, media: str) -> None:
    """On paper a long interval used to be printed over the number of seeds; "no effect" ran into the next column."""
    make_runs(tmp_path / "runs")
    long = [
        replace(one, effect=-0.03177, interval=(-0.07277, 0.009226)) if one.effect is not None else one
        for one in make_verdicts()
    ]
    # Such a registration used to be one line, which pushed the effects beyond the page.
    post_hoc = "post hoc: other settings than registered (epochs 3 instead of 30), interim: 3 of 10 registered seeds"
    long[0] = replace(long[0], registration=post_hoc)
    assert any(one.effect is None for one in long)
    path = tmp_path / "report.html"
    path.write_text(build_page(Store.open(tmp_path / "runs"), Verdicts(tuple(long)), now="2030-01-02 03:04 UTC"))
    with Visit(browser, path.as_uri(), viewport={"width": width, "height": 900}) as visit:
        visit.page.emulate_media(media=media)
        assert visit.page.evaluate(SPILLED) == []
        assert post_hoc in visit.page.inner_text("body")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_name_of_a_study_is_not_broken_on_a_phone(browser: Any, address: str) -> None:
    with Visit(browser, address, viewport={"width": 390, "height": 844}) as visit:
        for title in visit.page.locator("details.study > summary h2").all():
            assert title.evaluate("(e) => e.getClientRects().length") == 1


# Rows and panels that cover each other.
OVERPRINTED = """(() => {
  const boxes = [...document.querySelectorAll(".claim, figure.chart, h2, .legend.arms-legend")]
    .filter((e) => e.getClientRects().length && !e.classList.contains("unseen"))
    .map((e) => [e, e.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    if (one.contains(other) || other.contains(one)) return;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 2) found.push(one.className + " / " + other.className);
  }));
  return found;
})()"""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "axes"), [(390, True), (1280, False)])
def test_every_strip_has_its_own_axis_where_there_is_no_column(
    browser: Any, address: str, width: int, axes: bool
) -> None:
    """On a phone the forest plot had neither ticks nor a legend."""
    with Visit(browser, address, viewport={"width": width, "height": 844}) as visit:
        strips = visit.page.locator(".claim .forest:has(.mark)")
        assert strips.count() > 2 and visit.page.locator("p.narrow").is_visible() == axes
        for strip in strips.all():
            assert strip.locator(".narrow").is_visible() == axes
            if not axes:
                continue
            one = strip.locator("text", has_text="+1").first.bounding_box()
            margin = strip.locator(".limit").nth(1).bounding_box()
            assert abs(one["x"] + one["width"] / 2 - margin["x"] - margin["width"] / 2) < 1.5, (
                "the tick is at the margin"
            )


@pytest.mark.slow
def test_wide_tables_fit_or_show_that_they_scroll(browser: Any, tmp_path: Path) -> None:
    """At 1280 pixels, tables of six numbers with intervals used to be cut off without a sign."""
    numbers = {f"a_number_called_{name}": 3.19e8 for name in "abcdef"}
    store = make_runs(tmp_path / "runs", arms=("residual, zero-initialised", "residual, pre-norm"), summary=numbers)
    for record, run in enumerate(store.runs):
        run.summary.update({key: value * (1 + 0.1 * record) for key, value in numbers.items()})
    path = tmp_path / "report.html"
    path.write_text(build_page(store, make_verdicts(), now="2030-01-02 03:04 UTC"))
    wide = "(e) => [e.scrollWidth > e.clientWidth + 1, getComputedStyle(e).backgroundImage.includes('gradient')]"
    for width, scrolls in ((1280, False), (390, True)):
        with Visit(browser, path.as_uri(), viewport={"width": width, "height": 900}) as visit:
            table = visit.page.locator('.scroll[aria-label^="Headline numbers"]').first
            assert "[2." in table.inner_text() or "[3." in table.inner_text()
            assert table.evaluate(wide) == [scrolls, True]
