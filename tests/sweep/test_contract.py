"""The contract that every engine keeps, whatever machine its workers are on; Slurm is a real one, of one node."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kymograph import judge
from kymograph._claims.tuning import logged_choices
from kymograph._errors import KymographError
from kymograph._experiments.running import choose_seeds
from kymograph._runs.log import Log
from kymograph._sweep.engines import dask as dask_engine
from kymograph._sweep.engines import slurm as slurm_engine
from tests.studies.warmup_example import warmup_study
from tests.sweep.one_node_slurm import one_node_slurm, reason_to_skip
from tests.sweep.rigs import NOTES, STUDIES, Rig, contents, copy_study, orders_of, trained

SEEDS = (1, 2, 3, 4)  # two stacks
ENGINES = [
    "serial",
    "processes",
    pytest.param("dask", marks=pytest.mark.slow),
    pytest.param("slurm", marks=pytest.mark.slurm),
]


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[str]:
    """A cluster that runs before the sweeps and outlives them."""
    with dask_engine.local_cluster(2) as cluster:
        yield cluster.address


@pytest.fixture(scope="module")
def slurm_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with one_node_slurm(tmp_path_factory.mktemp("slurm")) as commands:
        yield commands


@pytest.fixture(params=ENGINES)
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rig:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    if request.param == "dask":
        return Rig("dask", {"scheduler": request.getfixturevalue("dask_cluster")}, retries=3)
    if request.param == "slurm":
        commands = request.getfixturevalue("slurm_commands")
        monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
        monkeypatch.setattr(slurm_engine, "LONGEST_PAUSE", 1.0)
        return Rig("slurm", {"retries": 1}, retries=1)
    return Rig(request.param)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return copy_study(tmp_path / "code")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the arm `work` comes to, computed in this process."""
    home = tmp_path_factory.mktemp("expected")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NOTES, str(home / "notes"))
        done = Rig("serial").run(copy_study(home / "code"), SEEDS, home / "out")
    assert len(done.store.finished) == len(SEEDS)
    return contents(home / "out")


def test_the_same_stacks_come_to_the_same_bytes(rig: Rig, study: Path, tmp_path: Path, expected: dict) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.txt").touch()
    done = rig.run(study, SEEDS, tmp_path / "out", data_dir=tmp_path / "data")
    assert (done.computed, done.found, done.failures) == (4, 0, ())
    assert contents(tmp_path / "out") == expected
    assert len(trained()) == 4, "the variable that names this file travelled with the orders"
    assert [path.name for path in (tmp_path / "out" / "contract").glob(".*")] == [], "nothing is left behind"


@pytest.mark.slow
def test_a_study_in_one_function_is_as_good_as_any(rig: Rig, tmp_path: Path) -> None:
    """Its file is one that no worker has, and its runs are the same bytes as those of a program that calls it."""
    study = Path(shutil.copy(STUDIES / "warmup_example.py", tmp_path / "warmup_example.py"))
    done = rig.run(study, (1, 2), tmp_path / "out")
    assert (done.computed, done.failures) == (4, ())
    rig.run(study, (1, 2), tmp_path / "out")
    warmup_study.run([1, 2], out=tmp_path / "here", quiet=True)
    here = {path.rpartition("-")[0]: content for path, content in contents(tmp_path / "here").items()}
    assert {path.rpartition("-")[0]: content for path, content in contents(tmp_path / "out").items()} == here
    assert judge(tmp_path / "out")[0].n == 2


@pytest.mark.slow
def test_tuned_arms_are_tuned_on_every_engine(rig: Rig, tmp_path: Path) -> None:
    study = Path(shutil.copy(STUDIES / "bowl.py", tmp_path / "bowl.py"))
    arms, seeds = ["slow", "fast"], choose_seeds(None, 3)
    rig.run(study, seeds, tmp_path / "out", arms=arms, fields={"depth": 1.0})
    Rig("serial").run(study, seeds, tmp_path / "expected", arms=arms, fields={"depth": 1.0})
    assert contents(tmp_path / "out") == contents(tmp_path / "expected") != {}
    here, there = (
        {choice.arm: choice.value for choice in logged_choices(Log.read(tmp_path / name), "bowl")}
        for name in ("out", "expected")
    )
    assert here == there and len(here) == len(arms)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_its_stack_once(rig: Rig, study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arms = ["work", "die-once"]
    if rig.engine == "serial":  # its worker is the sweep itself
        codes = [rig.start(study, SEEDS, out, "--arms", *arms).wait() for _ in range(3)]
        assert codes == [-9, -9, 0], "each of the two stacks dies once"
    else:
        done = rig.run(study, SEEDS, out, arms=arms)
        assert len(done.failures) == (0 if rig.retries else 4)
        assert all("signal 9" in str(outcome.reason) for outcome in done.failures)
    again = rig.run(study, SEEDS, out, arms=arms)
    assert len(again.store.finished) == 8 and not again.failures
    assert len({content for name, content in contents(out).items() if name.endswith("arrays.safetensors")}) == 4, (
        "both arms train the same at a seed"
    )


def test_a_stack_that_always_kills_its_worker_fails_alone_and_says_why(rig: Rig, study: Path, tmp_path: Path) -> None:
    if rig.engine == "serial":
        pytest.skip("its worker is the sweep itself")
    done = rig.run(study, (1, 2), tmp_path / "out", arms=["work", "die"])
    assert {run.arm for run in done.store.finished} == {"work"} and len(done.store.finished) == 2
    why = {"processes": "signal 9", "dask": "4 workers died .*KilledWorker", "slurm": "2 times as FAILED, signal 9"}
    for run in done.store.failed:
        assert run.arm == "die" and run.reason is not None
        assert re.search(why[rig.engine], run.reason)
    assert trained().count("die 1") == 1 + (rig.retries or 0)


def test_a_failing_run_keeps_its_traceback(rig: Rig, study: Path, tmp_path: Path) -> None:
    done = rig.run(study, (1, 2), tmp_path / "out", arms=["work", "raise"])
    assert {run.arm for run in done.store.finished} == {"work"} and len(done.failures) == 2
    for run in done.store.failed:
        assert run.arm == "raise" and run.reason == "RuntimeError: it is broken"
        assert run.traceback is not None and 'raise RuntimeError("it is broken")' in run.traceback


@pytest.mark.slow
def test_a_killed_driver_loses_nothing_and_is_restarted(rig: Rig, study: Path, tmp_path: Path, expected: dict) -> None:
    out = tmp_path / "out"
    driver = rig.start(study, SEEDS, out, "--seconds", "2")
    deadline = time.monotonic() + 120
    while not trained():
        assert driver.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    done = rig.run(study, SEEDS, out, fields={"seconds": 2.0})
    assert len(done.store.finished) == 4 and not done.failures
    series = {name.rpartition("/")[2]: sorted(v for k, v in contents(out).items() if k.endswith(name))
              for name in ("arrays.safetensors", "summary.json")}  # fmt: skip
    for name, values in series.items():
        assert values == sorted(content for key, content in expected.items() if key.endswith(name))
    if rig.engine == "slurm":
        assert len(trained()) == 4, "the jobs went on, and were not submitted twice"


@pytest.mark.slow
def test_an_output_directory_that_is_gone_is_noticed_before_training(rig: Rig, study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    orders = orders_of(study, (1,), out)
    shutil.rmtree(out)
    out.write_text("in the way")
    with pytest.raises(KymographError, match=r"there is no directory .*out|cannot (write|create)"):
        rig.compute(orders)
    assert trained() == []


def test_a_study_that_only_the_driver_has_goes_with_the_order(
    rig: Rig, study: Path, tmp_path: Path, expected: dict
) -> None:
    orders = orders_of(study, SEEDS, tmp_path / "out")
    shutil.rmtree(study.parent)
    assert [outcome.status for outcome in rig.compute(orders)] == ["finished"] * 4
    assert contents(tmp_path / "out") == expected


@pytest.mark.slow
def test_two_drivers_share_a_directory(rig: Rig, study: Path, tmp_path: Path, expected: dict) -> None:
    drivers = [rig.start(study, SEEDS, tmp_path / "out") for _ in range(2)]
    assert [driver.wait(timeout=240) for driver in drivers] == [0, 0]
    assert contents(tmp_path / "out") == expected


@pytest.mark.slow
def test_a_worker_with_another_version_says_so(rig: Rig, study: Path, tmp_path: Path) -> None:
    (order,) = orders_of(study, (1,), tmp_path / "out")
    other = replace(order, package={"version": "0.0.1", "code": "0123456789abcdef"})
    with pytest.raises(
        KymographError, match=r"has kymograph .* and the sweep was started with kymograph 0\.0\.1 .*code"
    ):
        rig.compute([other])
    assert trained() == []


@pytest.mark.slow
def test_a_worker_without_the_data_says_so(rig: Rig, study: Path, tmp_path: Path) -> None:
    if rig.engine == "serial":
        pytest.skip("the sweep itself has looked for the data")
    orders = orders_of(study, (1,), tmp_path / "out", tmp_path / "absent")
    with pytest.raises(KymographError, match=r"^on \S+: there is no data\.txt in .*absent; fetch it first$"):
        rig.compute(orders)
    assert trained() == []
