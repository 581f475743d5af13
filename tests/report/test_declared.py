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
from kymograph.cli.main import main
from kymograph.report.page import build_page
from kymograph.runs.archive import Archive
from kymograph.runs.declaration import Arm, Declaration, SeriesDisplay, read_declaration, write_declaration
from kymograph.studies.loading import STUDIES
from tests.live.stage import plan
from tests.report.pages import NOW, Outline, environment, make_runs

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
    assert [(panel["title"], [arm["name"] for arm in panel["arms"]]) for panel in curves["panels"]] == [
        ("pair", ["wild", "calm"])
    ]
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


def test_every_file_is_read_once_when_a_report_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_runs(tmp_path / "runs", study="warmup")
    write_declaration(tmp_path / "runs" / "warmup", WARMUP)
    plan(tmp_path / "runs", [run.spec for run in store])
    reads: Counter[str] = Counter()
    plain = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads[str(path.relative_to(tmp_path / "runs"))] += 1
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    with pytest.raises(SystemExit) as exit_:
        main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html")])
    assert exit_.value.code == 0
    assert len(reads) == len(store) * 4 + 2 and set(reads.values()) == {1}, reads.most_common(5)


def test_the_report_of_a_user_defined_study_needs_neither_its_code_nor_torch(tmp_path: Path) -> None:
    make_runs(tmp_path, study="warmup")
    write_declaration(tmp_path / "warmup", WARMUP)
    code = f"""
import sys
sys.modules["torch"] = None  # importing torch now raises ImportError
from kymograph.lab.judge import judge
from kymograph.report.page import build_page
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
