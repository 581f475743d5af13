"""Loops that a framework drives: steps begun and ended from outside, and the record in the framework's checkpoints."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import kymograph as ky
from kymograph._experiments.framework_run import FrameworkRun
from kymograph._experiments.recorded_loop import RecordedRun


class Training:
    """A network, an optimizer and the batches of every step."""

    def __init__(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)

    def backward(self, step: int) -> torch.Tensor:
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        loss = self.network(x).square().mean()
        loss.backward()
        return loss.detach()

    def update(self, step: int) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.backward(step)
        self.optimizer.step()
        return loss

    def record(self, out: Path, arm: str = "sgd", **options: Any) -> RecordedRun:
        run = ky.record("framework", arm=arm, seed=42, out=out, **options)
        assert isinstance(run, RecordedRun)
        run.watch(self.network, self.optimizer, level="standard", every=1)
        return run


def series(out: Path, arm: str) -> dict[str, ky.RunSeries]:
    (run,) = ky.Store.open(out).select("framework", arms=[arm]).finished
    return dict(run.series)


def assert_same(out: Path, one: str, other: str) -> None:
    left, right = series(out, one), series(out, other)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].step.tolist() == right[name].step.tolist(), name
        np.testing.assert_array_equal(left[name].value, right[name].value, name)


def test_steps_begun_from_outside_are_those_of_a_loop(tmp_path: Path) -> None:
    one, other = Training(), Training()
    with one.record(tmp_path, "loop") as run:
        for step in run.steps(5):
            run.log(loss=one.update(step))
    with other.record(tmp_path, "outside") as run:
        for step in range(5):
            run.begin_step(step)
            run.log(loss=other.update(step))
            run.end_step()
    assert_same(tmp_path, "loop", "outside")


@pytest.mark.parametrize("inside", [True, False])
def test_a_checkpoint_has_the_step_after_which_it_was_written(inside: bool, tmp_path: Path) -> None:
    """Inside the loop the step has not ended, but its update is in the weights; before the update it is not."""
    whole = Training()
    with whole.record(tmp_path, "whole") as run:
        for step in run.steps(6):
            run.log(loss=whole.update(step))
    first, path = Training(), tmp_path / "checkpoint.pt"
    with pytest.raises(RuntimeError, match="killed"), first.record(tmp_path, "resumed") as run:

        def save() -> None:
            parts = {"run": run, "network": first.network, "optimizer": first.optimizer}
            torch.save({name: part.state_dict() for name, part in parts.items()}, path)

        for step in run.steps(6):
            if step == 3 and not inside:
                save()
            run.log(loss=first.update(step))
            if step == 2 and inside:
                save()
            if step == 4:
                raise RuntimeError("killed")
    loaded = torch.load(path, weights_only=True)
    assert loaded["run"]["step"] == 3
    second = Training()
    second.network.load_state_dict(loaded["network"])
    second.optimizer.load_state_dict(loaded["optimizer"])
    with second.record(tmp_path, "resumed") as run:
        run.log(loss=99.0)
        run.load_state_dict(loaded["run"])
        assert run.step == 3
        for step in run.steps(3):
            run.log(loss=second.update(3 + step))
        assert run.notes == ["resumed at step 3 from a checkpoint"]
    assert_same(tmp_path, "whole", "resumed")


def test_a_checkpoint_of_other_settings_or_another_network_is_noticed(tmp_path: Path) -> None:
    training = Training()
    with training.record(tmp_path, config={"lr": 0.1}) as run:
        for step in run.steps(2):
            training.update(step)
        state = run.state_dict()
    with Training().record(tmp_path, config={"lr": 0.2}) as run:
        run.load_state_dict(state)
        assert run.notes == ["resumed at step 2 from a checkpoint that differs in lr (0.1, now 0.2)"]
    with (
        ky.record("framework", arm="none", seed=42, out=tmp_path) as run,
        pytest.raises(ky.KymographError, match=r"other watched networks; call run\.watch before"),
    ):
        run.load_state_dict(state)
    run = Training().record(tmp_path, "damaged")
    for damaged in ({}, {**state, "record": "["}, {**state, "tensors": {}}, {**state, "record": "[]"}):
        with pytest.raises(ky.KymographError, match="the checkpoint's record does not fit this run"):
            run.load_state_dict(damaged)
    run.close()


def test_what_is_left_on_an_optimizer_neither_stays_nor_keeps_a_run_alive(tmp_path: Path) -> None:
    training = Training()
    with training.record(tmp_path, "ended") as run:
        for step in run.steps(1):
            training.update(step)
    assert not training.optimizer._optimizer_step_post_hooks and not training.optimizer._optimizer_step_pre_hooks
    forgotten = weakref.ref(run := training.record(tmp_path, "forgotten"))
    del run
    gc.collect()
    assert forgotten() is None


class Prepared(torch.optim.Optimizer):
    """An optimizer as Accelerate prepares it: it has no hooks of its own, and skips its step while accumulating."""

    def __init__(self, optimizer: torch.optim.Optimizer, state: SimpleNamespace) -> None:
        self.optimizer, self.gradient_state, self.scaler = optimizer, state, None

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    def step(self) -> None:  # type: ignore[override]
        if self.gradient_state.sync_gradients:
            self.optimizer.step()
            self.optimizer.zero_grad()


@pytest.mark.parametrize("resume", [False, True])
def test_a_prepared_optimizer_says_where_a_step_ends(resume: bool, tmp_path: Path) -> None:
    """Also where a run of ours resumes by itself: it skips the batches, not as many steps."""
    plain = Training()
    with plain.record(tmp_path, "plain") as run:
        for step in run.steps(4):
            plain.backward(2 * step)
            plain.backward(2 * step + 1)
            plain.optimizer.step()
            plain.optimizer.zero_grad()

    def train(fails_at: int | None = None) -> None:
        training, state = Training(), SimpleNamespace(sync_gradients=True)
        optimizer = Prepared(training.optimizer, state)
        with ky.record("framework", arm="prepared", seed=42, out=tmp_path) as run:
            run.watch(training.network, optimizer, level="standard", every=1)
            run.resumable(every=1, network=training.network, optimizer=training.optimizer)
            for batch in run.steps(8):
                if batch == fails_at:
                    raise KeyboardInterrupt
                state.sync_gradients = batch % 2 == 1
                training.backward(batch)
                optimizer.step()
            assert run.step == 4

    if resume:
        with pytest.raises(KeyboardInterrupt):
            train(fails_at=5)
    train()
    assert_same(tmp_path, "plain", "prepared")


def test_a_training_that_cannot_be_watched_is_a_failed_run(tmp_path: Path) -> None:
    record = FrameworkRun("framework", "sgd", None, {}, {"layers": ["nothing.*"]}, out=tmp_path)
    training = Training()
    with pytest.raises(ky.KymographError, match="no layer matches"):
        record.start(training.network, training.optimizer, seed=42, config={}, step=0, steps=4)
    assert record.run is None and len(ky.Store.open(tmp_path).select("framework").failed) == 1


def test_a_framework_that_begins_again_records_once(tmp_path: Path) -> None:
    """As transformers does with a smaller batch when memory has run out."""
    record, training = FrameworkRun("framework", "sgd", None, {}, {"every": 1}, out=tmp_path), Training()
    for steps in (1, 3):
        record.start(training.network, training.optimizer, seed=42, config={}, step=0, steps=3)
        for step in range(steps):
            record.begin_step(step)
            training.update(step)
            record.end_step()
    record.finish(3)
    assert series(tmp_path, "sgd")["weight_norm"].step.tolist() == [0, 1, 2]


def test_a_record_that_is_ahead_of_the_training_is_not_continued(tmp_path: Path) -> None:
    training = Training()
    with training.record(tmp_path, "ahead") as run:
        for step in run.steps(5):
            training.update(step)
        state = run.state_dict()
    record = FrameworkRun("framework", "sgd", None, {}, {"every": 1}, out=tmp_path)
    record.checkpoint = state
    record.start(training.network, training.optimizer, seed=42, config={}, step=3, steps=4)
    record.begin_step(3)
    training.update(3)
    record.end_step()
    record.finish(4)
    (run,) = ky.Store.open(tmp_path).select("framework", arms=["sgd"]).finished
    assert run.series["weight_norm"].step.tolist() == [3]
    assert "the training began at step 3; steps 0 to 2 are not in the record" in run.notes
