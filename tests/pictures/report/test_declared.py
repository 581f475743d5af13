"""What a study declares beside its runs is all that the report knows about it, and no file is read twice."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kymograph
from kymograph.claims.verdict import Verdicts
from kymograph.pictures.report.page import build_page
from kymograph.runs.archive import Archive
from kymograph.runs.declaration import FILE, Arm, Declaration, SeriesDisplay, read_declaration, write_declaration
from kymograph.studies.loading import STUDIES
from tests.pictures.live.stage import plan
from tests.pictures.report.pages import NOW, Outline, environment, make_runs

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


def test_a_user_defined_study_is_shown_from_study_json_alone(tmp_path: Path) -> None:
    make_runs(tmp_path, study="warmup")
    write_declaration(tmp_path / "warmup", WARMUP)
    archive = Archive.open(tmp_path).checked()
    page = Outline(build_page(archive.store, Verdicts(()), declarations=archive.declarations, now=NOW))
    assert "warmup" not in sys.modules
    for text in (WARMUP.question, "no warmup", "ten steps of it", "loss at the end", "Training loss", "The stream"):
        assert text in page.text, text
    curves, heat = page.charts()
    assert curves["unit"] == "nats" and curves["time"] == heat["time"] == "epoch" and curves["y"][4] == 1
    assert [(panel["title"], panel["arms"]) for panel in curves["panels"]] == [("pair", ["wild", "calm"])]
    assert "not drawn here: cosine" in " ".join(page.text.split())


def test_a_study_with_a_built_in_name_is_shown_as_its_own_directory_declares_it(tmp_path: Path) -> None:
    name = STUDIES.names()[0]
    make_runs(tmp_path, study=name)
    write_declaration(tmp_path / name, Declaration(name, "Another question?", 1, headlines={"final_loss": "my loss"}))
    page = build_page(Archive.open(tmp_path).store, Verdicts(()), now=NOW)
    assert "Another question?" in page and "my loss" in page


def test_stored_runs_of_a_built_in_study_look_the_same_with_and_without_study_json(
    depth_store: kymograph.Store,
) -> None:
    assert depth_store.root is not None
    stored = read_declaration(depth_store.root / depth_store.studies[0])
    assert stored is not None, "a sweep stores it"
    declared = build_page(depth_store, Verdicts(()), declarations={stored.name: stored}, now=NOW)
    assert declared == build_page(depth_store, Verdicts(()), declarations={}, now=NOW)


def test_studies_come_in_their_declared_order(tmp_path: Path) -> None:
    orders = {"zeta": 1, "alpha": 2, "beta": 2, "undeclared": None}
    for name, order in orders.items():
        make_runs(tmp_path, study=name, seeds=[1])
        if order is not None:
            write_declaration(tmp_path / name, Declaration(name, version=1, order=order))
    page = Outline(build_page(Archive.open(tmp_path).store, Verdicts(()), now=NOW))
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
from kymograph.cli.main import main
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
from kymograph.claims.judge import judge
from kymograph.pictures.report.page import build_page
from kymograph.runs.archive import Archive
archive = Archive.open({str(tmp_path)!r}).checked()
page = build_page(archive.store, judge(archive.store), declarations=archive.declarations, now="now")
assert "Does warmup tame the &lt;stream&gt;?" in page
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())


@pytest.mark.parametrize("room", ["report", "live"])
def test_no_study_is_known_by_name(room: str) -> None:
    names = set(STUDIES.names())
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and node.value in names), f"{path.name}: {node.value!r}"
