from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.experiments.recorded_loop import record
from kymograph.experiments.running import run_sweep
from kymograph.experiments.stages import ComputeOptions
from kymograph.io.processes import Process
from kymograph.sweep.heartbeat import RUNNING
from tests.cli.command import write_coin
from tests.pictures.live.stage import beat, dead_process


def swept(tmp_path: Path, pid: int | None) -> tuple[Path, list[Path]]:
    """Stores a run, leaves what a kill would, and starts the sweep again; returns the study's directory and the run."""
    path = write_coin(tmp_path)
    options = ComputeOptions(tmp_path / "runs", "serial", 1, "cpu", quiet=True)
    (run,) = run_sweep(str(path), (1,), options, arms=["fair"]).store
    study = run.directory.parent
    part = study / f"{run.directory.name}.part"
    part.mkdir()
    (part / "resume.safetensors").write_bytes(b"old")
    (study / "fair-s2-0000000000000000.part").mkdir()  # of a run that is not asked for
    if pid is None:
        (study / RUNNING).mkdir()
    else:
        beat(tmp_path / "runs", [run.spec], pid=pid)
    assert run_sweep(str(path), (1,), options, arms=["fair"]).found == 1
    return study, [part, study / "fair-s2-0000000000000000.part"]


def test_what_a_stored_run_would_have_resumed_from_is_removed(tmp_path: Path) -> None:
    study, (own, other) = swept(tmp_path, None)
    assert not own.exists() and other.exists() and not (study / RUNNING).exists()


def test_the_beat_of_a_process_that_is_gone_does_not_count(tmp_path: Path) -> None:
    study, (own, _) = swept(tmp_path, dead_process())
    assert not own.exists() and not (study / RUNNING).exists()


def test_next_to_a_process_at_work_everything_stays(tmp_path: Path) -> None:
    study, (own, other) = swept(tmp_path, os.getppid())
    assert own.exists() and other.exists() and (study / RUNNING).exists()


@pytest.mark.parametrize("name", ["coin", "log", f"coin/{RUNNING}"])
@pytest.mark.parametrize("verb", ["run", "record"])
def test_a_link_in_the_output_that_leads_elsewhere_is_not_followed(tmp_path: Path, name: str, verb: str) -> None:
    """Records were written to where it leads, and what a dead process had left there was deleted."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "runs"
    elsewhere.mkdir()
    abandoned = [f".x.{kind}.{replace(Process.this(), pid=dead_process(), born='1').mark}" for kind in ("new", "0")]
    for left in abandoned:
        (elsewhere / left).mkdir()
    link = root / name
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(KymographError, match=f"{link} is a link that leads outside of {root}, which is not followed"):
        if verb == "run":
            run_sweep(str(write_coin(tmp_path)), (1,), ComputeOptions(root, quiet=True), arms=["fair"])
        else:
            record("coin", arm="fair", seed=1, out=root)
    assert sorted(os.listdir(elsewhere)) == sorted(abandoned)


def test_a_link_that_stays_in_the_output_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "here").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("real")
    (tmp_path / "runs" / "coin").symlink_to("here")
    done = run_sweep(str(write_coin(tmp_path)), (1,), ComputeOptions(tmp_path / "runs", quiet=True), arms=["fair"])
    assert done.computed == 1 and (tmp_path / "real" / "here" / "study.json").exists()
