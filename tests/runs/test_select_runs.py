from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.runs.archive import read_archive, select
from kymograph.runs.declaration import write_declaration
from kymograph.runs.store import Store
from kymograph_studies.clipping import Clipping


@pytest.fixture
def two_studies(depth_store: Store, clipping_store: Store, tmp_path: Path) -> Path:
    """A directory with the runs of two studies, one run of `depth` damaged and one of `clipping` missing."""
    for store in (depth_store, clipping_store):
        assert store.root is not None
        shutil.copytree(store.root, tmp_path / "runs", dirs_exist_ok=True)
    damaged = next(iter(sorted((tmp_path / "runs" / "depth").glob("*/summary.json"))))
    damaged.write_text("{}")
    shutil.rmtree(next(iter(sorted((tmp_path / "runs" / "clipping").glob("*-s42-*")))))
    return tmp_path / "runs"


def test_runs_are_selected_by_study_arm_and_setting(two_studies: Path) -> None:
    whole = select(two_studies)
    assert set(whole.studies) == {"depth", "clipping"}
    assert select(two_studies, "clipping").studies == ("clipping",)
    part = select(two_studies, arms=["extreme/*", "moderate/clip"])
    assert set(part.arms) == {"extreme/no_clip", "extreme/clip", "moderate/clip"}
    assert select(two_studies, "depth", where={"width": 8}).studies == ("depth",)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"study": "dept"}, "has no runs of 'dept'; did you mean 'depth'"),
        ({"arms": ["extreme/clipp"]}, "has no arm 'extreme/clipp'; did you mean 'extreme/clip'"),
        ({"where": {"lrr": 1}}, "no run has a field 'lrr'"),
    ],
)
def test_what_is_not_there_is_named(two_studies: Path, choice: dict, message: str) -> None:
    with pytest.raises(KymographError, match=message):
        select(two_studies, **choice)


def test_the_archive_of_one_study_holds_its_runs_its_damaged_runs_and_its_plan_only(two_studies: Path) -> None:
    whole, depth, clipping = (read_archive(two_studies, name) for name in (None, "depth", "clipping"))
    assert set(depth.studies) == {"depth"} and set(clipping.studies) == {"clipping"}
    assert len(depth.damaged) == 1 and "summary.json" in depth.damaged[0].reason and not clipping.damaged
    assert len(clipping.planned) == len(clipping.store) + 1, "a run that is missing is still planned"
    assert len(whole.store) == len(depth.store) + len(clipping.store)
    assert len(whole.planned) == len(depth.planned) + len(clipping.planned)
    with pytest.raises(KymographError, match="has no runs of 'cliping'; did you mean 'clipping'"):
        read_archive(two_studies, "cliping")


def test_runs_of_earlier_code_are_left_out_unless_their_version_is_named(
    tmp_path: Path, clipping_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert clipping_store.root is not None
    shutil.copytree(clipping_store.root, tmp_path / "runs")
    version = Clipping.version
    monkeypatch.setattr(Clipping, "version", version + 1)
    write_declaration(tmp_path / "runs" / "clipping", Clipping().declaration())
    with pytest.raises(KymographError, match="all 12 runs asked for are superseded by newer code"):
        select(tmp_path / "runs")
    assert len(select(tmp_path / "runs", where={"version": version})) == 12
    assert not capsys.readouterr().err
