"""The page in a browser: it changes by itself, complains of nothing, asks only its server, and suits everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._runs.declaration import Arm
from tests.pictures.live.server import served
from tests.pictures.live.stage import beat, declare, fail, finish, plan, specs
from tests.pictures.report.pages import llama_sites, make_networks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


def dress(root: Path) -> list:
    runs = [*specs(4), *specs(2, arm="<script>alert(1)</script>")]
    plan(root, runs)
    finish(root, runs[0])
    finish(root, runs[1])
    beat(root, runs[2:3], words="<b>loss</b> 0.3")
    return runs


def test_the_counts_change_by_themselves(browser, tmp_path: Path) -> None:
    runs = dress(tmp_path)
    page = browser.new_page()
    troubles: list[str] = []
    asked: set[str] = set()
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("request", lambda request: asked.add(request.url))
    with served(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_text("2 of 6").wait_for(timeout=5000)
        page.locator("#link", has_text="live").wait_for(timeout=5000)
        assert page.get_by_role("rowheader", name="<script>alert(1)</script>", exact=True).count() == 1
        assert page.get_by_text("<b>loss</b> 0.3").count() == 1
        assert page.locator("svg[aria-label^='loss of a, seed']").count() == 1
        finish(tmp_path, runs[2])
        page.get_by_text("3 of 6").wait_for(timeout=5000)
        fail(tmp_path, runs[3])
        page.get_by_text("a, seed 3: RuntimeError: cursed").wait_for(timeout=5000)
        assert page.title() == "4/6 Kymograph"
        assert page.locator("progress").get_attribute("value") == "4"
    assert troubles == []
    assert asked == {f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/events"}
    page.locator("#link", has_text="connection lost").wait_for(timeout=5000)
    page.close()


def test_it_comes_back_after_the_server_restarts(browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.pictures.live import server

    runs = dress(tmp_path)
    page = browser.new_page()
    with served(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("#link", has_text="live").wait_for(timeout=5000)
    page.locator("#link.lost").wait_for(timeout=5000)
    finish(tmp_path, runs[3])
    plain = server.bind
    monkeypatch.setattr(server, "bind", lambda _: plain(port))
    with served(tmp_path):
        page.get_by_text("3 of 6").wait_for(timeout=10_000)
        page.locator("#link", has_text="live").wait_for(timeout=5000)
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(browser, tmp_path: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    runs = dress(tmp_path)
    fail(tmp_path, runs[3])
    make_networks(tmp_path, {"a": llama_sites(4)})
    with served(tmp_path) as port:
        for width in (390, 1280):
            # The page's own policy forbids the checker's script; it is let in here and nowhere else.
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
            )
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port}/")
            page.locator("#link", has_text="live").wait_for(timeout=5000)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
            assert [(v["id"], v["help"]) for v in axe.run(page)["violations"]] == []
            context.close()
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        assert "2 of 6" in page.inner_text("main") and "RuntimeError: cursed" in page.inner_text("main")
        context.close()


def test_a_family_of_layers_is_chosen_and_stays_chosen_while_runs_end(browser, tmp_path: Path) -> None:
    make_networks(tmp_path, {"a": llama_sites(4)}, quantities=["output_gradient_norm"])
    page = browser.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    with served(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        picture = page.locator("svg.network")
        picture.wait_for(timeout=5000)
        assert "output gradient norm of model.layers.* over training" in picture.get_attribute("aria-label")
        assert picture.locator("text").all_text_contents() == list("0123")
        page.select_option("select", "self_attn.v_proj")
        title = picture.locator("rect.row title").nth(1).text_content()
        assert title == "model.layers.1.self_attn.v_proj: 0 at the start, 0 at the end"
        assert (
            picture.locator("path[fill^='url(#dots-']").count() == 1
            and page.get_by_text("Dotted: exactly 0").count() == 1
        )
        make_networks(tmp_path, {"b": llama_sites(4)}, quantities=["output_gradient_norm"])
        page.get_by_text("of the latest run: b, seed 1").wait_for(timeout=5000)
        assert page.locator("select").input_value() == "self_attn.v_proj"
        assert "self_attn.v_proj over training, b" in picture.get_attribute("aria-label")
    assert troubles == []
    page.close()


def test_nothing_is_cut_off_on_a_desktop_and_arms_have_their_colours(browser, tmp_path: Path) -> None:
    """Of a study with many headline numbers the last columns used to lie beyond the page."""
    arms = tuple(Arm(f"a_rather_long_arm/{name}", label=f"Arm {name}", colour="sky") for name in "ab")
    headlines = {f"number_{index}": f"a headline number {index}" for index in range(7)}
    runs = [run for arm in arms for run in specs(10, arm=arm.name)]
    plan(tmp_path, runs)
    declare(tmp_path, arms=arms, headlines=headlines)
    for run in runs:
        finish(tmp_path, run, dict.fromkeys(headlines, 0.5 + 0.001 * run.seed))
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    with served(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_role("rowheader", name="Arm a", exact=True).wait_for(timeout=5000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        over = "[...document.querySelectorAll('.scroll')].map((part) => part.scrollWidth - part.clientWidth)"
        assert max(page.evaluate(over)) <= 0
        sky = page.evaluate("getComputedStyle(document.querySelector('circle.dot')).fill")
        assert sky == "rgb(86, 180, 233)"
        heights = page.evaluate(
            "[...document.querySelectorAll('svg')].find((one) => one.querySelector('circle'))"
            ".querySelectorAll('circle').values().map((dot) => Number(dot.getAttribute('cy'))).toArray()"
        )
        assert max(heights) - min(heights) < 7, "a spread of one per cent does not fill the axis"
    page.close()


def test_the_axis_of_the_dots_holds_the_interval_of_the_mean(browser, tmp_path: Path) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    for run, value in zip(runs, (1.0, 2.0), strict=True):
        finish(tmp_path, run, {"x": value})
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    with served(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("path.band").first.wait_for(state="attached", timeout=5000)
        dots = page.evaluate(
            "[...document.querySelectorAll('circle.dot')].map((dot) => Number(dot.getAttribute('cy')))"
        )
        assert abs(dots[0] - dots[1]) < 2, (
            "two seeds say little: their interval, which the axis holds, is 13 times wider"
        )
    page.close()
