"""What a probe does not measure is said at once: compiled models, steps that were not begun, layers that do not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import kymograph as ky
from tests.probes.awkward import X, Y, loss_of, made

BATCH = {"loss": loss_of, "batch": (X, Y)}


@pytest.fixture(autouse=True)
def _forget_compiled() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def wrapped(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return torch.compile(model, backend="eager")


def in_place(model: nn.Module) -> Callable[[Tensor], Tensor]:
    model.compile(backend="eager")
    return model


def in_a_function(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return torch.compile(lambda x: model(x), backend="eager")


def already_run(model: nn.Module) -> Callable[[Tensor], Tensor]:
    compiled = torch.compile(model, backend="eager")
    compiled(X)
    return compiled


COMPILED = {"wrapper": wrapped, "in place": in_place, "function": in_a_function, "already run": already_run}


def train(
    probe: ky.Probe, optimizer: torch.optim.Optimizer, call: Callable[[Tensor], Tensor], steps: int = 4
) -> ky.Probe:
    with probe:
        for step in range(steps):
            with probe.step(step):
                optimizer.zero_grad()
                nn.functional.cross_entropy(call(X), Y).backward()
                optimizer.step()
    return probe


def eager(steps: int = 4, **options: Any) -> dict[str, ky.RunSeries]:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return train(ky.Probe(model, optimizer, **options), optimizer, model, steps).series()


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("optimizer_is_given", [True, False])
@pytest.mark.parametrize("how", COMPILED)
def test_a_model_that_runs_only_compiled_is_measured_on_its_eager_twin(
    how: str, every: int, optimizer_is_given: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """All readings at layers were NaN, and nothing was said. The first measured step is not lost either."""
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = optimizer if optimizer_is_given else None
    probe = ky.Probe(model, given, "standard", every=every, **BATCH)
    train(probe, optimizer, COMPILED[how](model))
    for name, series in eager(level="standard", every=every).items():
        np.testing.assert_allclose(probe.series()[name].value, series.value, rtol=1e-5, err_msg=name)
        assert probe.series()[name].sites == series.sites
    assert len(probe.notes) == 1 and "measured on the model's eager twin" in probe.notes[0]
    assert capsys.readouterr().err == f"note: {probe.notes[0]}\n", "once"
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("how", COMPILED)
def test_a_model_that_runs_only_compiled_is_noted_after_the_first_step(
    how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe, call = ky.Probe(model, optimizer, every=2), COMPILED[how](model)
    with probe:
        with probe.step(0):
            nn.functional.cross_entropy(call(X), Y).backward()
            optimizer.step()
        assert len(probe.notes) == 1, "at once"
        if how == "in place":
            assert probe.notes[0].startswith(
                "the outputs of * (3 sites) are not measured, because no hook runs in comp"
            )
        else:
            assert "no layer was seen to run in step 0; watch the model that the loop calls" in probe.notes[0]
        assert capsys.readouterr().err == f"note: {probe.notes[0]}\n"
        for step in range(1, 5):
            with probe.step(step):
                nn.functional.cross_entropy(call(X), Y).backward()
                optimizer.step()
    assert capsys.readouterr().err == "" and len(probe.notes) == 1
    assert np.isnan(probe.series()["output_norm"].value).all() and (probe.series()["update_norm"].value[:, 0] > 0).all()


@pytest.mark.parametrize("twin", [True, False])
def test_a_part_that_is_compiled_later_is_noticed(twin: bool) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = ky.Probe(model, optimizer, every=1, **(BATCH if twin else {}))
    model[0].compile(backend="eager")
    train(probe, optimizer, model)
    (note,) = probe.notes
    if twin:
        assert "measured on the model's eager twin" in note
        assert note.endswith("because no hook runs in compiled modules: 0")
        for name, series in eager(every=1).items():
            np.testing.assert_allclose(probe.series()[name].value, series.value, rtol=1e-5, err_msg=name)
    else:
        assert note.startswith(
            "the outputs of 0 are not measured, because no hook runs in compiled modules; give loss="
        )
        assert np.isnan(probe.series()["output_norm"].value).tolist() == [[True, False, False]] * 4


@pytest.mark.parametrize("every", [1, 3])
def test_a_probe_does_not_make_a_compiled_model_compile_at_every_step(every: int) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch._dynamo.utils.counters.clear()
    train(ky.Probe(model, optimizer, every=every), optimizer, wrapped(model), steps=10)
    counters = torch._dynamo.utils.counters
    assert counters["stats"]["unique_graphs"] <= 2, "with hooks and without"
    assert not counters["graph_break"]


def test_an_eager_model_with_a_batch_reads_its_own_steps_and_learns_the_same_bits() -> None:
    plain, given = eager(every=1), eager(every=1, **BATCH)
    for name, series in plain.items():
        np.testing.assert_array_equal(given[name].value, series.value, err_msg=name)


def test_a_step_that_does_not_train_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """As the step of a generator in which only the discriminator is trained, or one that a GradScaler skips."""
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ky.Probe(model, optimizer, every=1, **BATCH) as probe:
        for step in range(4):
            with probe.step(step):
                if step > 1:
                    loss_of(model, (X, Y)).backward()
                    optimizer.step()
    assert probe.notes == () and capsys.readouterr().err == ""
    assert np.isnan(probe.series()["output_norm"].value).all(axis=1).tolist() == [True, True, False, False]


class Attention(nn.Module):
    """Has a dropout that only one of its two ways uses, like nanoGPT's."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.attn_dropout = nn.Linear(6, 6), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(x)


class Network(nn.Module):
    """Blocks with unused parts, more unused parts, and one that runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList([Attention() for _ in range(12)])
        self.teacher, self.head = nn.Linear(6, 6), nn.Linear(6, 3)
        self.one, self.another, self.third = nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.teacher(x)
        for block in self.h:
            x = block(x)
        return self.head(x)


NOT_RUN = (
    "the outputs of h.*.attn_dropout (12 sites), teacher, one and 2 more are not measured: they did not run in step 0, "
    "or only under no_grad or compiled"
)


def test_layers_that_do_not_run_are_named_after_the_first_measured_step(capsys: pytest.CaptureFixture[str]) -> None:
    """They were NaN without a word."""
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ky.Probe(model, optimizer, every=2) as probe:
        with probe.step(0):
            loss_of(model, (X, Y)).backward()
        assert probe.notes == (NOT_RUN,) and capsys.readouterr().err == f"note: {NOT_RUN}\n"
        for step in range(1, 4):
            with probe.step(step):
                loss_of(model, (X, Y)).backward()
    assert probe.notes == (NOT_RUN,) and capsys.readouterr().err == ""


def test_lists_cannot_run_and_are_not_named() -> None:
    model = Network()
    with ky.Probe(model, every=1, layers=["h", "head"]) as probe, probe.step(0):
        loss_of(model, (X, Y)).backward()
    assert probe.notes == ()
    inside = torch.cat([parameter.detach().flatten() for parameter in model.h.parameters()])
    assert probe.rows()[0].values["weight_norm"]["h"] == pytest.approx(float(inside.double().norm()), rel=1e-6)


@pytest.mark.parametrize("name", ["checkpointed", "checkpointed, re-entrant"])
@pytest.mark.filterwarnings("ignore")
def test_checkpointed_layers_have_run(name: str) -> None:
    model = made(name)
    for level in ("light", ["output_gradient_norm"]):
        with ky.Probe(model, level=level, every=1) as probe, probe.step(0):
            loss_of(model, (X, Y)).backward()
        assert probe.notes == ()


def test_many_notes_of_one_step_are_printed_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return type("Box", (), {})()

    class Oddities(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.odd, self.head = nn.ModuleList([Odd() for _ in range(9)]), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            for odd in self.odd:
                odd(x)
            return self.head(x)

    model = Oddities()
    with ky.Probe(model, every=1) as probe:
        for step in range(2):
            with probe.step(step):
                loss_of(model, (X, Y)).backward()
    lines = capsys.readouterr().err.splitlines()
    assert len(probe.notes) == 9 and len(lines) == 5
    assert lines[-1] == "note: 5 more such notes are in probe.notes, and in the record of a run"


def test_training_without_a_step_is_said_at_the_first_update(capsys: pytest.CaptureFixture[str]) -> None:
    """It was noted when the probe was asked, and never printed."""
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ky.Probe(model, optimizer) as probe:
        optimizer.step()
        assert "note: nothing is measured, because no step was begun" in capsys.readouterr().err
        optimizer.step()
    assert capsys.readouterr().err == "" and not optimizer._optimizer_step_post_hooks
    with ky.Probe(model) as probe:
        pass
    assert probe.notes and capsys.readouterr().err == f"note: {probe.notes[0]}\n"
    with pytest.raises(ZeroDivisionError), ky.Probe(model):
        raise ZeroDivisionError
    assert capsys.readouterr().err == "", "the error says what went wrong"


def test_a_probe_that_goes_on_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = train(ky.Probe(model, optimizer, every=1, **BATCH), optimizer, wrapped(model), steps=2)
    assert capsys.readouterr().err.count("note: ") == 1
    again = ky.Probe(model, optimizer, every=1, **BATCH)
    again.load_state(probe.state())
    call = wrapped(model)
    with again:
        for step in (2, 3):
            with again.step(step):
                optimizer.zero_grad()
                nn.functional.cross_entropy(call(X), Y).backward()
                optimizer.step()
    assert capsys.readouterr().err == "" and again.notes == probe.notes
    for name, series in eager(every=1).items():
        np.testing.assert_allclose(again.series()[name].value, series.value, rtol=1e-5, err_msg=name)


# In a run.


def test_a_run_prints_what_is_not_measured_at_once_and_records_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.watch(model, optimizer, every=1)
        for step in run.steps(3):
            if step == 1:
                assert run.notes == [NOT_RUN]
                assert capsys.readouterr().err == f"note: a, seed 1: {NOT_RUN}\n"
            loss_of(model, (X, Y)).backward()
            optimizer.step()
    assert capsys.readouterr().err == ""
    (stored,) = ky.Store.open(tmp_path)
    assert list(stored.notes) == [NOT_RUN]


@pytest.mark.parametrize("optimizer_is_given", [True, False])
def test_watching_without_steps_is_said_as_soon_as_training_shows(
    optimizer_is_given: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.watch(model, optimizer if optimizer_is_given else None)
        for step in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, (X, Y))
            loss.backward()
            optimizer.step()
            run.log(loss=loss, step=step)
            if step == 1:
                assert "note: a, seed 1: nothing is measured, because no step was begun" in capsys.readouterr().err
    assert capsys.readouterr().err == ""
    (stored,) = ky.Store.open(tmp_path)
    assert [note for note in stored.notes if "no step was begun" in note]


def test_an_unused_probe_leaves_other_hooks_of_the_optimizer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """It used to remove its own hook while hooks ran, which raised "OrderedDict mutated during iteration"."""
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    updates = []
    with ky.Probe(model, optimizer):
        optimizer.register_step_post_hook(lambda *_: updates.append(1))
        for _ in range(3):
            loss_of(model, (X, Y)).backward()
            optimizer.step()
    assert len(updates) == 3 and capsys.readouterr().err.count("no step was begun") == 1
    assert len(optimizer._optimizer_step_post_hooks) == 1


def test_a_run_that_logs_before_its_loop_and_one_that_exists_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = made("in-place")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with ky.record("mine", arm="a", seed=1, out=tmp_path, if_exists="skip") as run:
            run.watch(model, optimizer)
            run.log(loss=3.0)
            run.log(accuracy=0.1)
            for _step in run.steps(2):
                loss_of(model, (X, Y)).backward()
                optimizer.step()
            run.log(loss=1.0)
    assert capsys.readouterr().err == ""
    (stored,) = ky.Store.open(tmp_path)
    assert stored.notes == () or stored.notes == []


def test_a_run_that_never_began_a_step_says_so_when_it_ends_unless_it_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.watch(made("in-place"))
    assert capsys.readouterr().err.count("nothing is measured, because no step was begun") == 1
    with pytest.raises(ZeroDivisionError), ky.record("mine", arm="a", seed=2, out=tmp_path) as run:
        run.watch(made("in-place"))
        raise ZeroDivisionError
    assert "nothing is measured" not in capsys.readouterr().err


def test_a_run_and_a_probe_measure_at_the_same_interval(tmp_path: Path) -> None:
    """A run measured every step, a probe every tenth."""
    model = made("in-place")
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        assert run.watch(model).schedule.every == ky.Probe(model).schedule.every == 10
        for _ in run.steps(21):
            loss_of(model, (X, Y)).backward()
    (stored,) = ky.Store.open(tmp_path)
    assert stored.series["output_norm"].step.tolist() == [0, 10, 20]
