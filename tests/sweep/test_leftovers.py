from __future__ import annotations

import os
from pathlib import Path

from kymograph.lab.run import SweepOptions, sweep
from kymograph.sweep.heartbeat import RUNNING
from tests.cli.command import write_coin
from tests.live.stage import beat, dead_process


def swept(tmp_path: Path, pid: int | None) -> tuple[Path, list[Path]]:
    """Stores a run, leaves what a kill would, and starts the sweep again; returns the study's directory and the run."""
    path = write_coin(tmp_path)
    options = SweepOptions(tmp_path / "runs", "serial", 1, "cpu", quiet=True)
    (run,) = sweep(str(path), (1,), options, arms=["fair"]).store
    study = run.directory.parent
    part = study / f"{run.directory.name}.part"
    part.mkdir()
    (part / "resume.safetensors").write_bytes(b"old")
    (study / "fair-s2-0000000000000000.part").mkdir()  # of a run that is not asked for
    if pid is None:
        (study / RUNNING).mkdir()
    else:
        beat(tmp_path / "runs", [run.spec], pid=pid)
    assert sweep(str(path), (1,), options, arms=["fair"]).found == 1
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
