from __future__ import annotations

import ast
import base64
import hashlib
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kymograph
from kymograph._claims.claim import Claim
from kymograph._claims.verdict import Outcome, Verdicts
from kymograph._cli.main import main
from kymograph._pictures.report_page.page import build_page, data_block, write_report
from kymograph._runs import record
from kymograph._runs.declaration import FILE, Arm, Declaration, SeriesDisplay, write_declaration
from kymograph._runs.directory import Directory
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._studies.loading import STUDIES
from tests.pictures.live.stage import plan
from tests.pictures.report.pages import (
    HOSTILE_ARM,
    HOSTILE_CLAIM,
    NOW,
    PROVENANCE,
    Outline,
    add_failure,
    arm_in,
    claim,
    declaring,
    environment,
    make_runs,
    make_verdicts,
)
from tests.records import write_record
from tests.studies.tossing import Tossing


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
        "A & B", NOW, "5 claims judged", "+0.545 [+0.520, +0.570]", "×2.05 [1.90, 2.20]", "[0.525, 0.565]",
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
    assert page.text.count("n = 3") >= 3 and len(page.with_class("arms-legend")) == 1, "one legend for all charts"
    curve = next(chart for chart in charts if chart["kind"] == "curves")
    arm = arm_in(curve, "calm")
    assert arm["seeds"] == [42, 123, 456] and len(arm["values"]) == 3 and len(arm["x"]) == 12


def test_the_numbers_behind_a_chart_are_those_of_the_runs(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    charts = Outline(build_page(store, Verdicts(()), now=NOW)).charts()
    loss = next(c for c in charts if c["unit"] == "loss")
    values = store.series("loss").sel(arm="wild").values
    arm = arm_in(loss, "wild")
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
    assert [text for text in page.code() if "alert(" in text] == []


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
        "import sys; from kymograph import Store; from kymograph._pictures.report_page.page import build_page;"
        "from tests.pictures.report.pages import make_verdicts;"
        f"sys.stdout.write(build_page(Store.open({str(tmp_path)!r}), make_verdicts(), now='another time'))"
    )
    variables = {**environment(), "PYTHONHASHSEED": "7"}  # sets in another order than here
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=variables).stdout
    here = build_page(store, make_verdicts(), now=NOW)
    assert other.decode() != here and other.decode().replace("another time", NOW) == here


def test_the_policy_names_this_pages_own_scripts_and_nothing_loads(page: Outline) -> None:
    policy = next(a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy
    own = page.code()
    assert len(own) == 3
    for text in own:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    for tag, attributes in page.elements:
        assert "style" not in attributes, f"{tag}: the policy forbids style attributes"
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_settings_failures_divergence_and_audits_are_reported(tmp_path: Path) -> None:
    make_runs(tmp_path, summary={"finite": False, "alarm_decay": True, "audit_gap": 0.25})
    make_runs(tmp_path, config={"lr": 0.5})
    store = add_failure(tmp_path, "out of <memory>")
    declared = Declaration("own", tables={"Alarms": {"alarm_decay": "alarm of decay", "audit_gap": "gap"}})
    page = Outline(build_page(declaring(store, {"own": declared}), Verdicts(()), now=NOW))
    for text in ("lr: 0.1", "lr: 0.5", "3 diverged", "1 failed", "out of <memory>", "alarm of decay", "3 of 3", "0.25",
                 "6 runs diverged", "1 run failed (excluded"):  # fmt: skip
        assert text in page.text, text


def test_the_steps_at_which_runs_diverged_are_named(tmp_path: Path) -> None:
    for seed, step in ((1, 212), (2, 300)):
        loss = np.where(np.arange(400) < step, 1.0, np.nan)
        spec = RunSpec("own", "wild", seed, {"lr": 9.0}, 1)
        write_record(
            tmp_path, spec, RunResult({"loss": RunSeries(np.arange(400), loss)}, {"final_loss": None}), {}, 0.1
        )
    page = Outline(build_page(Store.open(tmp_path), Verdicts(()), now=NOW))
    assert page.text.count("2 diverged at steps 212 to 300") == 2, "in the table of arms, and among the exclusions"
    assert "2 runs diverged" in page.text


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


def test_two_hundred_runs_of_a_hundred_epochs_and_ten_sites_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and aligning are the slow parts: a record is unpacked once, and a series is aligned once per chart."""
    arms = [f"arm/{number}" for number in range(20)]
    seeds = kymograph.fixed_seeds(10)
    make_runs(tmp_path, arms=arms, seeds=seeds, steps=100, sites=10)
    unpacked: Counter[str] = Counter()
    aligned: Counter[str] = Counter()

    def counting(function: Callable[..., Any], counter: Counter[str]) -> Callable[..., Any]:
        def counted(first: Any, name: str) -> Any:
            counter[name] += 1
            return function(first, name)

        return counted

    monkeypatch.setattr(record, "unpack_arrays", counting(record.unpack_arrays, unpacked))
    monkeypatch.setattr(Store, "series", counting(Store.series, aligned))
    page = build_page(Store.open(tmp_path), make_verdicts(), now=NOW)
    assert len(unpacked) == 200 and set(unpacked.values()) == {1}
    assert aligned == {"loss": 1, "stream": 2, "cosine": 2}
    assert len(page.encode()) < 10e6


@pytest.mark.slow
def test_no_verb_imports_what_a_stored_name_says(tmp_path: Path) -> None:
    make_runs(tmp_path, study="antigravity:nothing")
    code = (
        "import sys; from kymograph._cli.main import main\n"
        "for words in (['report', sys.argv[1], '-o', sys.argv[1] + '/r.html'], ['judge', sys.argv[1]],"
        " ['figure', '--dir', sys.argv[1]]):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "sys.exit('antigravity' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=environment())
    assert done.returncode == 0 and (tmp_path / "r.html").exists()


def test_a_text_that_no_encoding_holds_breaks_no_page(tmp_path: Path) -> None:
    make_runs(tmp_path)
    add_failure(tmp_path, "cannot read \udcff")
    assert write_report(Directory(tmp_path), Verdicts(()), tmp_path / "r.html").exists()


def test_only_a_decided_claim_has_a_deciding_p(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    for verdict in make_verdicts():
        text = Outline(build_page(store, Verdicts((verdict,)), now=NOW)).text
        assert ("deciding p" in text) == (verdict.outcome not in ("INCONCLUSIVE", "INVALID")), verdict.outcome


def test_the_page_says_that_verdicts_are_corrected_and_intervals_are_not(tmp_path: Path) -> None:
    text = Outline(build_page(make_runs(tmp_path), make_verdicts(), now=NOW)).text
    assert "corrected for the number of claims in their study (Holm), intervals are not" in text


def test_the_only_study_of_a_page_is_open(tmp_path: Path) -> None:
    """A page of one study used to end in a single folded line."""
    page = build_page(make_runs(tmp_path), make_verdicts(), now=NOW)
    assert '<details class="study" open>' in page and 'id="studies"' not in page
    page = build_page(make_runs(tmp_path, study="other"), make_verdicts(), now=NOW)
    assert page.count('<details class="study">') == 2 and 'id="studies"' in page


PACKAGE = Path(kymograph.__file__).parent


WARMUP = Declaration(
    "warmup",
    question="Does warmup tame the <stream>?",
    version=1,
    arms=(Arm("wild", "no warmup", panel="pair"), Arm("calm", "ten steps of it", panel="pair")),
    headlines={"final_loss": "loss at the end"},
    series=(
        SeriesDisplay("loss", "Training loss", "nats", log=True),
        SeriesDisplay("stream", "The stream", "‖h‖", log=True, forms=("kymograph",)),
    ),
    time="epoch",
    order=7,
)


class Noted(Tossing):
    """A study whose code says what a number and a set-up mean."""

    name = "noted"
    column_notes = {"x": "tossed, not thrown"}
    setup_meanings = {"bold": "Judged with a heavier coin."}

    def claims(self) -> list[Claim]:
        """One claim, under a label of its own."""
        return [replace(claim, study=self.name, setup="bold") for claim in super().claims()]


def test_what_the_code_of_a_study_says_is_on_the_page_only_if_the_code_is_named(tmp_path: Path) -> None:
    reference, pages = "tests.pictures.report.test_page:Noted", {}
    kymograph.run(Noted(), n_seeds=3, out=tmp_path / "runs")
    stored = (tmp_path / "runs" / "noted" / FILE).read_text()
    for name in ("noted", reference):
        with pytest.raises(SystemExit) as exit_:
            main(["report", str(tmp_path / "runs"), "--study", name, "-o", str(tmp_path / "report.html")])
        assert exit_.value.code == 0
        pages[name] = Outline((tmp_path / "report.html").read_text())
    for text in ("tossed, not thrown", "Judged with a heavier coin."):
        assert text in pages[reference].text and text not in pages["noted"].text and text not in stored


def test_a_user_defined_study_is_shown_from_study_json_alone(tmp_path: Path) -> None:
    make_runs(tmp_path, study="warmup")
    write_declaration(tmp_path / "warmup", WARMUP)
    archive = Directory(tmp_path).checked()
    page = Outline(build_page(archive.store, Verdicts(()), now=NOW))
    assert "warmup" not in sys.modules
    for text in (WARMUP.question, "no warmup", "ten steps of it", "loss at the end", "Training loss", "The stream"):
        assert text in page.text, text
    curves, heat = page.charts()
    assert curves["unit"] == "nats" and curves["time"] == heat["time"] == "epoch" and curves["y"][4] == 1
    assert [(panel["title"], panel["arms"]) for panel in curves["panels"]] == [("pair", ["wild", "calm"])]
    assert "not drawn here: cosine" in " ".join(page.text.split())


@pytest.mark.science
def test_a_study_with_a_built_in_name_is_shown_as_its_own_directory_declares_it(tmp_path: Path) -> None:
    name = STUDIES.names()[0]
    make_runs(tmp_path, study=name)
    write_declaration(tmp_path / name, Declaration(name, "Another question?", 1, headlines={"final_loss": "my loss"}))
    page = build_page(Directory(tmp_path).store, Verdicts(()), now=NOW)
    assert "Another question?" in page and "my loss" in page


def test_studies_come_in_their_declared_order(tmp_path: Path) -> None:
    orders = {"zeta": 1, "alpha": 2, "beta": 2, "undeclared": None}
    for name, order in orders.items():
        make_runs(tmp_path, study=name, seeds=[1])
        if order is not None:
            write_declaration(tmp_path / name, Declaration(name, version=1, order=order))
    page = Outline(build_page(Directory(tmp_path).store, Verdicts(()), now=NOW))
    ids = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert ids[1:-2] == ["study-zeta", "study-alpha", "study-beta", "study-undeclared"]


def test_every_file_is_read_once_when_a_report_is_made(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    store = make_runs(root, study="warmup")
    write_declaration(root / "warmup", WARMUP)
    plan(root, [run.spec for run in store])
    # A process of its own, since a hook stays for good.
    code = f"""
import os, sys
from kymograph._cli.main import main
def hook(event, facts):
    if event == "open" and isinstance(facts[0], str | os.PathLike) and os.fspath(facts[0]).startswith({str(root)!r}):
        print("opened", os.fspath(facts[0]), file=sys.stderr)
sys.addaudithook(hook)
main(["report", {str(root)!r}, "-o", {str(tmp_path / "report.html")!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    opened = [Path(line.split(" ", 1)[1]) for line in done.stderr.splitlines() if line.startswith("opened ")]
    files = {path for path in root.rglob("*") if path.is_file()}
    assert len(files) == len(store) * 4 + 2
    # Directories are opened, too, and the declaration once more for its digest.
    assert Counter(path for path in opened if path in files) == Counter(files) + Counter([root / "warmup" / FILE])


def test_the_report_of_a_user_defined_study_needs_neither_its_code_nor_torch(tmp_path: Path) -> None:
    make_runs(tmp_path, study="warmup")
    write_declaration(tmp_path / "warmup", WARMUP)
    code = f"""
import sys
sys.modules["torch"] = None  # importing torch now raises ImportError
from kymograph._claims.judge import judge
from kymograph._pictures.report_page.page import build_page
from kymograph._runs.directory import Directory
archive = Directory({str(tmp_path)!r}).checked()
page = build_page(archive.store, judge(archive.store), now="now")
assert "Does warmup tame the &lt;stream&gt;?" in page
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


@pytest.mark.parametrize("room", ["report", "live"])
def test_no_study_is_known_by_name(room: str) -> None:
    names = set(STUDIES.names())
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and node.value in names), f"{path.name}: {node.value!r}"
