"""A recording that was interrupted goes on only where nothing has changed; otherwise it starts over, and says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._experiments import active_run, recorded_loop
from kymograph._experiments.construction import constructed
from kymograph._runs import resume

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a main program: a worker of pytest-xdist has none, like an interpreter without a file."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)


class Parts:
    """What one start of a loop constructs."""

    def __init__(self, rate: float = 0.1, momentum: float = 0.9, layer: Any = nn.Tanh, decay: float = 0.9) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.model = nn.Sequential(nn.Linear(4, 3), layer(), nn.Linear(3, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), rate, momentum=momentum)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, decay)


def train(out: Path, stop_at: int | None = None, parts: Parts | None = None, steps: int = 10, **options: Any) -> Any:
    """Records a loop of ``steps`` steps, saved after each, and interrupts it; returns the stored run, if any."""
    built = parts or Parts()
    with ky.record("loop", arm="a", seed=1, out=out, **options) as run:
        run.resumable(model=built.model, optimizer=built.optimizer, scheduler=built.scheduler, every=1)
        for step in run.steps(steps):
            if step == stop_at:
                raise KeyboardInterrupt
            loss = built.model(torch.randn(8, 4, generator=run.generator("x", str(step)))).square().mean()
            built.optimizer.zero_grad()
            loss.backward()
            built.optimizer.step()
            built.scheduler.step()
            run.log(loss=loss, rate=built.optimizer.param_groups[0]["lr"])
            if step == 2:
                run.summary["early"] = step
                run.notes.append("something happened at step 2")
        if stop_at == steps:
            raise KeyboardInterrupt
        run.summary["final"] = built.model(torch.ones(1, 4)).item()
    return ky.Store.open(out).finished[0]


def interrupted(out: Path, stop_at: int = 5, **options: Any) -> Path:
    """Interrupts a recording in ``out``; returns ``out``."""
    with pytest.raises(KeyboardInterrupt):
        train(out, stop_at, **options)
    return out


def test_an_unchanged_recording_resumes_to_the_same_bits_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = train(tmp_path / "whole")
    assert "note" not in capsys.readouterr().err
    interrupted(tmp_path / "other", 3)
    interrupted(tmp_path / "other", 5)
    assert capsys.readouterr().err == "note: a, seed 1: resumed at step 3 of an earlier start\n"
    again = train(tmp_path / "other")
    assert capsys.readouterr().err == "note: a, seed 1: resumed at step 5 of an earlier start\n"
    for name in ("loss", "rate"):
        np.testing.assert_array_equal(whole.series[name].value, again.series[name].value)
    assert whole.summary == again.summary and again.summary["early"] == 2, "a number of the earlier start was lost"
    assert whole.notes == ("something happened at step 2",)
    assert again.notes == (
        "something happened at step 2",
        "resumed at step 3 of an earlier start",
        "resumed at step 5 of an earlier start",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 0.2}, "lr of optimizer (0.1, now 0.2)"),
        ({"momentum": 0.5}, "momentum of optimizer (0.9, now 0.5)"),
        ({"decay": 0.5}, "gamma of scheduler (0.9, now 0.5)"),
        ({"layer": nn.ReLU}, "1 of model (Tanh(), now ReLU())"),
        ({"layer": lambda: nn.Dropout(0.5)}, "1 of model (Tanh(), now Dropout(p=0.5, inplace=False))"),
    ],
)
def test_what_is_constructed_differently_starts_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    """The rate of the interrupted start used to be restored: the record had it at every step."""
    run = train(interrupted(tmp_path), parts=Parts(**change))
    (note,) = [one for one in run.notes if "started over" in one]
    assert note.startswith("the run started over, because it differs from its earlier start in") and words in note
    assert capsys.readouterr().err == f"note: a, seed 1: {note}\n"
    assert run.series["loss"].step.tolist() == list(range(10))
    if "rate" in change:
        assert run.series["rate"].value[0] == 0.2


def test_other_surroundings_start_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {
        "command line": lambda patch: patch.setattr(sys, "argv", [sys.argv[0], "--rate", "0.2"]),
        "program": lambda patch: patch.setattr(recorded_loop, "_program", lambda file: "edited"),
        "version of torch": lambda patch: patch.setattr(resume, "versions", lambda: {"torch": "1.0"}),
        "code of kymograph": lambda patch: patch.setattr(resume, "code_hash", lambda: "other"),
        "threads": lambda patch: patch.setattr(torch, "get_num_threads", lambda: 77),
    }
    for name, change in changes.items():
        out = interrupted(tmp_path / name.replace(" ", "-"))
        with monkeypatch.context() as patch:
            change(patch)
            assert any("started over" in note and name in note for note in train(out).notes), name


def test_what_is_on_the_command_line_is_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [sys.argv[0], "--key", "secret-1"])
    interrupted(tmp_path)
    monkeypatch.setattr(sys, "argv", [sys.argv[0], "--key", "secret-2"])
    assert "differs from its earlier start in command line" in train(tmp_path, 99).notes[0]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


def test_a_state_of_an_earlier_version_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(resume, "SCHEMA", 2)
        interrupted(tmp_path)
    assert "was written by another version of kymograph" in train(tmp_path).notes[0]


def test_a_state_saved_after_the_last_step_is_restored(tmp_path: Path) -> None:
    """Nothing used to be restored: the record had no series, and numbers of an untrained network."""
    whole = train(tmp_path / "whole")
    again = train(interrupted(tmp_path / "other", 10))
    assert again.summary == whole.summary and len(again.series["loss"].value) == 10


def test_a_loop_that_became_shorter_is_not_recorded_without_its_numbers(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match=r"ended after 4 steps, and its earlier start had reached step 5; delete"):
        train(interrupted(tmp_path), steps=4)


def test_what_a_loop_changes_between_two_loops_stays_changed(tmp_path: Path) -> None:
    """A state saved at the end of the first loop used to be restored at the start of the second."""

    def two_loops(out: Path, interrupt: bool) -> list[float]:
        built = Parts()
        with ky.record("two", arm="a", seed=1, out=out) as run:
            run.resumable(optimizer=built.optimizer, every=1)
            for _ in run.steps(3):
                run.log(rate=built.optimizer.param_groups[0]["lr"])
            built.optimizer.param_groups[0]["lr"] = 0.01
            for _ in run.steps(3):
                if interrupt:
                    raise KeyboardInterrupt
                run.log(rate=built.optimizer.param_groups[0]["lr"])
        return list(ky.Store.open(out).finished[0].series["rate"].value)

    with pytest.raises(KeyboardInterrupt):
        two_loops(tmp_path, True)
    assert two_loops(tmp_path, False) == [0.1, 0.1, 0.1, 0.01, 0.01, 0.01]


def test_items_drawn_from_the_global_generators_are_the_same_after_a_kill(tmp_path: Path) -> None:
    def draw(out: Path, stop_at: int | None) -> list[float]:
        torch.manual_seed(0)
        built = Parts()
        with ky.record("drawn", arm="a", seed=1, out=out) as run:
            run.resumable(model=built.model, every=1)
            for step, item in enumerate(run.steps(torch.rand(()) for _ in range(8))):
                if run.step == stop_at:
                    raise KeyboardInterrupt
                torch.rand(5)
                run.log(x=item, step=run.step)
                assert step < 8
        return list(ky.Store.open(out).finished[0].series["x"].value)

    whole = draw(tmp_path / "whole", None)
    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path / "other", 4)
    assert draw(tmp_path / "other", None) == whole


def test_objects_that_an_earlier_start_trained_resume_but_do_not_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook whose loop is executed again, but not the cell with the network."""
    whole = train(tmp_path / "whole")
    parts = Parts()
    interrupted(tmp_path / "one", parts=parts)
    again = train(tmp_path / "one", parts=parts)
    assert again.summary == whole.summary and "resumed at step 5 of an earlier start" in again.notes
    parts = Parts()
    interrupted(tmp_path / "two", parts=parts)
    monkeypatch.setattr(recorded_loop, "_program", lambda file: "edited")
    with pytest.raises(KymographError, match="an earlier start in this process has trained model; construct model"):
        train(tmp_path / "two", parts=parts)
    assert train(tmp_path / "two").summary == whole.summary


def test_an_optimizer_is_described_by_its_hyperparameters() -> None:
    weight = torch.zeros(3, requires_grad=True)
    groups = [{"params": [weight]}, {"params": [torch.zeros(2)], "lr": 0.5}]
    found = constructed("opt", torch.optim.AdamW(groups, lr=torch.tensor(0.25), foreach=False))
    assert found["lr of group 1 of opt"] == 0.25 and found["lr of group 2 of opt"] == 0.5
    assert found["betas[1] of group 2 of opt"] == 0.999 and found["parameters of group 1 of opt"] == "3 in 1 tensors"
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([weight], 0.1))
    assert constructed("it", plateau)["best of it"] == "inf"


def test_a_frozen_layer_is_another_network() -> None:
    model = nn.Linear(2, 2)
    before = constructed("model", model)
    model.bias.requires_grad_(False)
    assert resume.differences(before, constructed("model", model)) == "requires_grad of bias of model (True, now False)"
    assert resume.differences(before, constructed("model", nn.Linear(2, 2))) == "", "initial weights do not count"


def test_few_of_many_differences_are_named() -> None:
    many = {f"x{number}": number for number in range(9)}
    assert resume.differences(many, {}).count("absent") == 3
    assert resume.differences(many, {}).endswith(" and 6 others")


STUDY = """
import kymograph as ky
import torch
from pathlib import Path

@ky.study(question="?", arms={"a": {}})
def mine(run: ky.ActiveRun, *, steps: int = 6):
    flag = Path(__file__).with_name("rate")
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], float(flag.read_text()))
    run.resumable(optimizer=optimizer, every=1)
    for step in run.steps(steps):
        if step == 3 and not flag.with_name("on").exists():
            raise KeyboardInterrupt
        run.log(rate=optimizer.param_groups[0]["lr"])
"""


@pytest.mark.parametrize("rate", ["0.1", "0.2"])
def test_the_run_of_a_study_compares_what_its_function_constructs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: str
) -> None:
    """A value that comes from outside the code is not part of a run's id."""
    (tmp_path / "mine.py").write_text(STUDY)
    (tmp_path / "rate").write_text("0.1")
    options: dict[str, Any] = {"seeds": [1], "out": tmp_path / "runs", "quiet": True, "engine": "serial"}
    with pytest.raises(KeyboardInterrupt):
        ky.run(str(tmp_path / "mine.py"), **options)
    (tmp_path / "on").touch()
    (tmp_path / "rate").write_text(rate)
    (run,) = ky.run(str(tmp_path / "mine.py"), **options)
    assert set(run.series["rate"].value) == {float(rate)} and len(run.series["rate"].value) == 6
    said = "resumed at step 3" if rate == "0.1" else "the run started over, because it differs from its earlier start"
    assert run.notes[0].startswith(said) and capsys.readouterr().err.count(run.notes[0]) == 1


def test_another_sweep_that_ends_first_does_not_make_a_run_fail(tmp_path: Path, monkeypatch: Any) -> None:
    """It removes the directory of the state that both save; the second used to fail."""
    monkeypatch.setattr(active_run, "FIRST_SAVE", 0.0)
    (tmp_path / "mine.py").write_text(
        STUDY.replace("    for step in run.steps(steps):\n", "    for step in run.steps(steps):\n        take_away()\n")
        + "\ndef take_away():\n    import shutil\n"
        "    for path in Path(__file__).with_name('runs').glob('*/*.part'):\n        shutil.rmtree(path)\n"
    )
    (tmp_path / "rate").write_text("0.1")
    (tmp_path / "on").touch()
    (run,) = ky.run(str(tmp_path / "mine.py"), seeds=[1], out=tmp_path / "runs", quiet=True, engine="serial")
    assert run.status == "finished" and not list(tmp_path.glob("runs/*/*.part"))


SCRIPT = """
import sys
import torch
import kymograph as ky
from helper import RATE

with ky.record("script", arm="a", seed=1, out="runs") as run:
    weight = torch.zeros(1, requires_grad=True)
    run.resumable(optimizer=torch.optim.SGD([weight], 0.1), every=1)
    for step in run.steps(6):
        if step == 3 and "stop" in sys.stdin.read():
            raise SystemExit(9)
        run.log(rate=RATE)
"""


@pytest.mark.slow
@pytest.mark.parametrize("change", ["nothing", "a comment", "a helper", "the command line"])
def test_a_program_starts_over_if_it_or_its_command_line_was_edited(tmp_path: Path, change: str) -> None:
    def start(words: str, *options: str) -> int:
        command = [sys.executable, "script.py", *options]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, input=words, capture_output=True, text=True
        )
        assert done.returncode in (0, 9), done.stderr
        return done.returncode

    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("RATE = 1.0\n")
    assert start("stop", "--x", "1") == 9
    if change == "a comment":
        (tmp_path / "script.py").write_text(f"# new\n{SCRIPT}")
    elif change == "a helper":
        (tmp_path / "helper.py").write_text("RATE = 2.0\n")
    assert start("", "--x", "2" if change == "the command line" else "1") == 0
    (run,) = ky.Store.open(tmp_path / "runs").finished
    expected = {"a helper": "in program", "the command line": "in command line"}.get(change, "resumed at step 3")
    assert expected in run.notes[0]
    assert set(run.series["rate"].value) == {2.0 if change == "a helper" else 1.0}


NOTEBOOK = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(sys.stdin):
    shell.run_cell(cell, store_history=True)
"""
FIRST = "import torch\nimport kymograph as ky\nstop, torch_seed = False, 3"
LOOP = """
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], rate)
with ky.record("cells", arm="a", seed=1, out="runs") as run:
    run.resumable(optimizer=optimizer, every=1)
    for step in run.steps(6):
        if step == 3 and not __import__("pathlib").Path("on").exists():
            raise KeyboardInterrupt
        run.log(rate=loss(rate))
"""
LOSS = "def loss(x):\n    return x"
GO_ON = "__import__('pathlib').Path('on').touch()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "words", "logged"),
    [
        ([GO_ON, "print(rate)", "rate"], "resumed at step 3", 0.1),
        ([GO_ON, "rate = 0.2"], "in program and lr of optimizer (0.1, now 0.2)", 0.2),
        ([GO_ON, LOSS.replace("return x", "return 2 * x")], "in program", 0.2),
    ],
    ids=["nothing", "the rate", "the loss"],
)
def test_a_notebook_starts_over_if_the_cells_of_its_loop_were_edited(
    tmp_path: Path, between: list[str], words: str, logged: float
) -> None:
    pytest.importorskip("IPython")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    cells = [FIRST, "rate = 0.1", LOSS, LOOP, *between, LOOP]
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], check=False, cwd=tmp_path, env={**environment, "IPYTHONDIR": str(tmp_path)},
        input=json.dumps(cells), capture_output=True, text=True,
    )  # fmt: skip
    finished = ky.Store.open(tmp_path / "runs").finished
    assert len(finished) == 1, done.stdout + done.stderr
    assert words in finished[0].notes[0] and set(finished[0].series["rate"].value) == {logged}
