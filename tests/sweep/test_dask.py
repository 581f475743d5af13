"""The engine `dask` beyond the contract: clusters of its own, stopping, what is said when something is missing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kymograph._errors import KymographError
from kymograph._sweep.engines import dask as engine
from kymograph._sweep.engines.base import choose_engine, make_options
from kymograph._sweep.heartbeat import read_beats
from tests.sweep.rigs import NOTES, Rig, contents, copy_study, orders_of, trained

SCRIPT = """
import kymograph
store = kymograph.run({study!r}, seeds=[1, 2, 3, 4], out={out!r}, engine="dask", workers=2, device="cpu",
                      seconds={seconds}, quiet=True)
print(len(store.finished))
"""


@pytest.fixture(autouse=True)
def _notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return copy_study(tmp_path / "code")


def start(study: Path, out: Path, seconds: float, **more: Any) -> subprocess.Popen:
    """Runs a script that has no main guard."""
    script = out.with_name("script.py")
    script.write_text(SCRIPT.format(study=str(study), out=str(out), seconds=seconds))
    return subprocess.Popen([sys.executable, str(script)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **more)  # fmt: skip


def descendants(pid: int) -> set[int]:
    """Returns the processes below a process."""
    below = {int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()}
    return below.union(*map(descendants, below))


def wait_for(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_script_needs_no_main_guard_and_dask_is_silent(study: Path, tmp_path: Path) -> None:
    said, complaints = start(study, tmp_path / "out", 0.0).communicate()
    assert (said, complaints) == ("4\n", "")
    Rig("serial").run(study, (1, 2, 3, 4), tmp_path / "other")
    assert contents(tmp_path / "out") == contents(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes die with their parent on Linux")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_cluster_of_its_own_ends_with_the_sweep(how: signal.Signals, study: Path, tmp_path: Path) -> None:
    if how is signal.SIGINT and signal.getsignal(how) is signal.SIG_IGN:
        pytest.skip(
            "whoever started the tests ignores interrupts, as a script does for what it starts in the background"
        )
    sweep = start(study, tmp_path / "out", 60.0, start_new_session=True)
    wait_for(trained)
    assert len(read_beats(tmp_path / "out" / "contract", time.time())) >= 1, "`watch` sees what is computed"
    below = descendants(sweep.pid)
    assert len(below) >= 4, "two workers, each with a process that keeps it"
    os.killpg(sweep.pid, how)  # Ctrl-C in a terminal reaches the whole group
    sweep.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 30)
    assert contents(tmp_path / "out") == {}


@pytest.mark.slow
def test_closing_stops_what_a_cluster_that_goes_on_computes(study: Path, tmp_path: Path) -> None:
    """Dask does not stop a task that runs."""
    with engine.local_cluster(1) as cluster:
        chosen = choose_engine("dask", 1, 1, "cpu", {"scheduler": cluster.address})
        text = study.read_text().replace("work.tick(1)", "work.tick(1), time.sleep(0.2)")
        study.write_text(text)
        (order,) = orders_of(study, (1,), tmp_path / "out")
        long = json.loads(json.dumps(order.to_json()).replace('"steps": 20', '"steps": 2000'))
        assert long != order.to_json()
        from kymograph._sweep.orders import Order
        from kymograph._sweep.progress import Progress

        iterator = chosen.run([Order.from_json(long)], Progress("", 1, 1, quiet=True))
        ended = threading.Event()
        failure: list[BaseException] = []

        def consume() -> None:
            try:
                next(iterator)
            except BaseException as error:
                failure.append(error)
            ended.set()

        threading.Thread(target=consume, daemon=True).start()
        wait_for(trained)
        running = tmp_path / "out" / "contract" / ".running"
        assert running.exists()
        from distributed import Client

        with Client(cluster.address, set_as_default=False) as client:
            client.run_on_scheduler(lambda dask_scheduler: [
                dask_scheduler.client_releases_keys(keys=list(dask_scheduler.tasks), client=one, stimulus_id="test")
                for one in list(dask_scheduler.clients)
            ])  # fmt: skip
            wait_for(lambda: not running.exists(), 30)
    assert contents(tmp_path / "out") == {}


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch, study: Path, tmp_path: Path) -> None:
    import dask
    import distributed  # noqa: F401  (its settings must be there before one of them is changed)

    with (
        pytest.raises(KymographError, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:9: "),
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
    ):
        Rig("dask", {"scheduler": "tcp://127.0.0.1:9"}).compute(orders_of(study, (1,), tmp_path / "out"))
    with pytest.raises(KymographError, match="requires TLS, but Dask's configuration names no certificates"):
        Rig("dask", {"scheduler": "tls://127.0.0.1:9"}).compute(orders_of(study, (1,), tmp_path / "out"))
    with pytest.raises(KymographError, match="the engine 'dask' has no option 'schedular'; did you mean 'scheduler'"):
        make_options("dask", {"schedular": "x"})
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(KymographError, match=r"pip install 'kymograph\[dask\]'"):
        choose_engine("dask", 1, 1, "cpu")


def test_dasks_own_setting_names_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    assert not engine.Options().elsewhere
    with dask.config.set({"scheduler-address": "tcp://node0:8786"}):
        assert engine.Options().elsewhere and engine.Options().address == "tcp://node0:8786"
        assert engine.Options("tcp://node1:8786").address == "tcp://node1:8786"


@pytest.mark.slow
def test_two_hundred_stacks_survive_a_worker_killed_every_five_seconds(study: Path, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    ended, kills = threading.Event(), []

    def kill_workers() -> None:
        draw = random.Random(0)
        while not ended.wait(5):
            below = psutil.Process().children(recursive=True)
            workers = [one for one in below if _computes(one)]
            if workers:
                draw.choice(workers).kill()
                kills.append(time.monotonic())

    killer = threading.Thread(target=kill_workers, daemon=True)
    killer.start()
    try:
        done = Rig("dask").run(study, range(400), tmp_path / "out", fields={"seconds": 0.2})
    finally:
        ended.set()
        killer.join()
    assert len(kills) >= 3 and not done.failures and len(done.store.finished) == 400
    Rig("serial").run(study, range(400), tmp_path / "other", fields={"seconds": 0.0})
    numbers = [sorted(contents(tmp_path / name).values()) for name in ("out", "other")]
    assert numbers[0] == numbers[1] and len(numbers[0]) == 800


def _computes(process: Any) -> bool:
    """Says whether a process is one that Dask's program started, and not the program itself."""
    import psutil

    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_a_cluster_of_its_own_listens_on_the_loopback_only(study: Path, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    with engine.local_cluster(1) as cluster:
        from distributed import Client

        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        ports = [port.laddr.ip for one in processes for port in one.net_connections("inet") if port.status == "LISTEN"]
    assert len(ports) >= 4 and set(ports) == {"127.0.0.1"}
