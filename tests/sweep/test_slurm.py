"""The engine `slurm` beyond the contract: what it submits, detached sweeps, cancelling; most on a real one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._sweep.compute import RunOutcome
from kymograph._sweep.engines import slurm as slurm_queue
from kymograph._sweep.engines.slurm import SLURM, Batch, Engine, Options, batches_in, check_line, write_batch
from kymograph._sweep.progress import Progress
from tests.sweep.one_node_slurm import LARGEST_ARRAY, one_node_slurm, reason_to_skip
from tests.sweep.rigs import NOTES, Rig, contents, copy_study, orders_of, trained


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with one_node_slurm(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.fixture(autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    monkeypatch.setattr("kymograph._sweep.engines.slurm.LONGEST_PAUSE", 1.0)


@pytest.fixture
def real(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return copy_study(tmp_path / "code")


def names(out: Path) -> list[str]:
    return [batch.name for batch in batches_in(out / "contract")]


@pytest.mark.slurm
@pytest.mark.usefixtures("real")
def test_a_detached_sweep_is_collected_and_only_what_is_missing_is_submitted(study: Path, tmp_path: Path) -> None:
    out, seeds = tmp_path / "out", range(LARGEST_ARRAY + 2)
    detached = Rig("slurm", {"detach": True, "per_job": 4})
    first = detached.run(study, seeds, out, fields={"seconds": 1.0})
    assert (first.computed, first.found, first.submitted) == (0, 0, len(seeds)) and not first.failures
    (name,) = names(out)
    jobs = {index for _, index in slurm_queue.queued([name])}
    assert max(jobs) == 2, "twelve stacks of two runs, four to a job"
    again = detached.run(study, seeds, out, fields={"seconds": 1.0})
    assert again.submitted == len(seeds) - again.found and names(out) == [name], "what is in the queue stays there"
    done = Rig("slurm", {"per_job": 4}).run(study, seeds, out, fields={"seconds": 1.0})
    assert len(done.store.finished) == len(seeds) and done.submitted == 0
    assert len(trained()) == len(seeds), "nothing was computed twice"


@pytest.mark.slurm
@pytest.mark.usefixtures("real")
def test_a_detached_job_that_was_killed_is_submitted_by_the_next_run(study: Path, tmp_path: Path) -> None:
    out, detached = tmp_path / "out", Rig("slurm", {"detach": True})
    detached.run(study, (1, 2), out, arms=["die-once"])
    (first,) = names(out)
    deadline = time.monotonic() + 60
    while slurm_queue.queued([first]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert trained() == ["die-once 1", "die-once 2"] and contents(out) == {}
    done = Rig("slurm").run(study, (1, 2), out, arms=["die-once"])
    assert len(done.store.finished) == 2 and names(out) == []


@pytest.mark.slurm
@pytest.mark.usefixtures("real")
def test_closing_cancels_the_jobs(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[str] = []

    def note(*arguments: Any) -> Batch:
        batch = write_batch(*arguments)
        submitted.append(batch.name)
        return batch

    monkeypatch.setattr(slurm_queue, "write_batch", note)
    orders = orders_of(study, range(LARGEST_ARRAY + 1), tmp_path / "out")
    engine = Engine(1, Options())
    iterator = engine.run(orders, Progress("", 1, 1, quiet=True))
    next(iterator)
    assert len(submitted) == 2, "Slurm does not take so many jobs in one array"
    iterator.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    while slurm_queue.queued(submitted):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert names(tmp_path / "out") == []


@pytest.mark.slurm
@pytest.mark.usefixtures("real")
def test_what_slurm_refuses_is_one_sentence(study: Path, tmp_path: Path) -> None:
    with pytest.raises(KymographError, match=r"^sbatch: .*nvalid partition"):
        Rig("slurm", {"partition": "absent"}).compute(orders_of(study, (1,), tmp_path / "out"))
    assert names(tmp_path / "out") == []


def test_the_script_holds_the_options(study: Path, tmp_path: Path) -> None:
    (order,) = orders_of(study, (1,), tmp_path / "out")
    options = Options("gpu,long", "01:00:00", ("mem=4G", "--account=physics", "#SBATCH -x node3"))
    batch = write_batch(tmp_path / "o ut", [[order]] * 3, 2, options.lines("cuda"))
    script = (batch.directory / "batch.sh").read_text().splitlines()
    given = [line.removeprefix("#SBATCH ") for line in script if line.startswith("#SBATCH")]
    assert given == [f"--job-name={batch.name}", "--array=0-2%2", "--ntasks=1", "--output=/dev/null",
                     "--partition=gpu,long", "--time=01:00:00", "--gres=gpu:1", "--mem=4G", "--account=physics",
                     "-x node3"]  # fmt: skip
    assert f"task='{batch.directory}'/$SLURM_ARRAY_TASK_ID" in script
    assert " -P -m kymograph._sweep.worker " in script[-1], "no module of the current directory is imported"
    assert "--cpus-per-task=1" in options.lines("cpu") and set(batch.runs()) == {order.stack.specs[0].id}


def test_a_link_that_leads_elsewhere_is_not_followed(study: Path, tmp_path: Path) -> None:
    (order,) = orders_of(study, (1,), tmp_path / "out")
    (tmp_path / "elsewhere" / "kymograph-0").mkdir(parents=True)
    own = tmp_path / "out" / "coin"
    own.mkdir(parents=True)
    (own / SLURM).symlink_to(tmp_path / "elsewhere")
    words = f"{own / SLURM} is a link that leads outside of {tmp_path / 'out'}, which is not"
    with pytest.raises(KymographError, match=words):
        write_batch(own, [[order]], 1, ())
    with pytest.raises(KymographError, match=words):
        list(batches_in(own))  # those that have ended would be removed


@pytest.mark.parametrize("wrong", [{"partition": "a b"}, {"time": ""}, {"per_job": 0}, {"retries": -1}])
def test_options_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(KymographError):
        Options(**wrong)
    with pytest.raises(KymographError, match="takes options such as mem=4G"):
        check_line("mem=4G\nrm -rf /")


def test_a_machine_without_slurm_says_so(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = orders_of(study, (1,), tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KymographError, match="scontrol was not found; run this where Slurm's commands are installed"):
        Rig("slurm").compute(orders)


def test_what_a_job_wrote_before_it_was_killed_counts(tmp_path: Path) -> None:
    (tmp_path / "0.answers").write_text('{"outcomes": [{"run": "a", "status": "finished", "reason": null}]}\n{"outco')
    (tmp_path / "0.log").write_text("first\nlast words\n")
    batch = Batch(tmp_path)
    assert batch.answers(0) == ({"a": RunOutcome("a", "finished")}, None) and batch.answers(1) == ({}, None)
    assert batch.last_log_line(0) == "last words" and batch.last_log_line(1) == ""
    assert batch.is_followed(), "it may be about to be submitted"
    batch.submitted("7")
    assert not batch.is_followed()
    batch.follow()
    assert batch.is_followed()


def test_how_a_job_ended_is_read_from_slurms_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "JobId=4 ArrayTaskId=2 JobState=FAILED Reason=JobLaunchFailure ExitCode=0:9 RunTime=00:00:00"
    monkeypatch.setattr(slurm_queue, "_slurm", lambda *command: said)
    assert str(slurm_queue.job_end("1", 2)) == "FAILED, signal 9"
    monkeypatch.setattr(slurm_queue, "_slurm", lambda *command: "JobState=TIMEOUT ExitCode=0:0")
    assert str(slurm_queue.job_end("1", 2)) == "TIMEOUT"


@pytest.mark.slurm
@pytest.mark.usefixtures("real")
def test_a_run_of_two_processes_has_a_group_in_its_job(tmp_path: Path) -> None:
    study = Path(__file__).with_name("rank_study.py")
    store = ky.run(str(study), [42], out=tmp_path / "out", engine="slurm", arms=["slow"], quiet=True)
    here = ky.run(str(study), [42], out=tmp_path / "here", engine="serial", arms=["slow"], quiet=True)
    assert [run.status for run in store.runs] == ["finished"]
    assert store.runs[0].provenance["processes"] == {"ranks": 2, "strategy": "ddp"}
    assert store.runs[0].summary["loss"] == here.runs[0].summary["loss"]
