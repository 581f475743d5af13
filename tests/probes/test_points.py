"""Gradients are read at the points that their quantities name, whatever scales, accumulates, clips or skips them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._pictures.series import displays_of
from kymograph._probes.quantities import QUANTITIES, load
from kymograph._probes.quantities import QuantityInput as At
from kymograph._runs.declaration import Declaration
from tests.probes.awkward import X, Y, loss_of

Gradients = dict[str, Tensor]
RAW, CLIPPED, OUTPUT = "raw_weight_gradient_norm", "weight_gradient_norm", "output_gradient_norm"
LEVEL = ["output_gradient_norm", "raw_weight_gradient_norm", "weight_gradient_norm", "gradient_cosine", "update_norm"]
SCALE = 2.0**10


def made() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def gradients(net: nn.Module) -> Gradients:
    """Returns a copy of the gradient of each layer, as one vector."""
    return {
        name: torch.cat([p.grad.flatten() for p in layer.parameters()]).detach().clone()
        for name, layer in net.named_children()
        if any(p.grad is not None for p in layer.parameters())
    }


def assert_norms(values: dict[str, float], expected: Gradients, about: str = "") -> None:
    assert set(expected) == {name for name, value in values.items() if not np.isnan(value)}, about
    for name, gradient in expected.items():
        assert values[name] == pytest.approx(float(gradient.double().norm()), rel=1e-6), (name, about)


def half_of_it(net: nn.Module, half: int) -> Tensor:
    return loss_of(net, (X[6 * half : 6 * half + 6], Y[6 * half : 6 * half + 6])) / 2


def test_every_gradient_names_its_point_and_so_does_what_is_computed_from_it() -> None:
    points = {At.OUTPUT_GRADIENT: "unscaled", At.RAW_WEIGHT_GRADIENT: "unscaled", At.WEIGHT_GRADIENT: "clipped"}
    for part in QUANTITIES.parts().values():
        quantity = load([part.name])[part.name.replace("-", "_")]
        of = [load([one])[one] for one in quantity.sources] or [quantity]
        expected = {points[one.input] for one in of if one.input in points}
        assert set(filter(None, [part.properties.get("point")])) == expected, part.name
    shown = displays_of(Declaration("any"), [RAW, CLIPPED, OUTPUT, "update_norm"], [])
    assert [one.title.rpartition(" ")[2] for one in shown] == ["(unscaled)", "step", "(clipped)", "(unscaled)"]


def test_the_raw_point_is_the_whole_gradient_before_clipping_and_the_other_the_one_applied() -> None:
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    expected: list[tuple[Gradients, Gradients]] = []
    with ky.Probe(net, optimizer, LEVEL, every=1) as probe:
        for step in range(3):
            with probe.step(step):
                optimizer.zero_grad()
                for half in range(2):
                    half_of_it(net, half).backward()
                raw = gradients(net)
                nn.utils.clip_grad_norm_(net.parameters(), 0.01)
                expected.append((raw, gradients(net)))
                optimizer.step()
    for row, (raw, clipped) in zip(probe.rows(), expected, strict=True):
        assert_norms(row.values[RAW], raw)
        assert_norms(row.values[CLIPPED], clipped)
        assert row.values["update_norm"]["0"] == pytest.approx(0.5 * float(clipped["0"].norm()), rel=1e-5)
    assert probe.notes == ()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale", [False, True])
def test_under_a_scaler_every_gradient_is_divided_by_its_scale_once(fused: bool, unscale: bool) -> None:
    """Those at outputs used to be multiplied by it, and with a fused optimizer those of the weights as well."""

    def rows(scaled: bool) -> list[Any]:
        net = made()
        optimizer = torch.optim.SGD(net.parameters(), 0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=2, enabled=scaled)
        with ky.Probe(net, optimizer, LEVEL, every=1, scaler=scaler) as probe:
            for step in range(6):
                with probe.step(step):
                    optimizer.zero_grad()
                    for half in range(2):
                        scaler.scale(half_of_it(net, half)).backward()
                    if unscale:
                        scaler.unscale_(optimizer)
                        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
                    scaler.step(optimizer)
                    scaler.update()
        assert probe.notes == () and (not scaled or scaler.get_scale() > SCALE)
        return probe.rows()

    for plain, scaled in zip(rows(False), rows(True), strict=True):
        for quantity, values in plain.values.items():
            for layer, value in values.items():
                assert scaled.values[quantity][layer] == pytest.approx(value, rel=1e-6, nan_ok=True), (quantity, layer)


def test_half_precision_gradients_do_not_underflow_when_the_scale_is_taken_out() -> None:
    net = nn.Linear(2, 2, bias=False, dtype=torch.float16)
    nn.init.ones_(net.weight)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    with ky.Probe(net, level=[OUTPUT, RAW], every=1, scaler=scaler) as probe, probe.step(0):
        scaler.scale(net(torch.ones(1, 2, dtype=torch.float16)).float().sum() * 2.0**-26).backward()
    for quantity in (OUTPUT, RAW):
        (value,) = probe.rows()[0].values[quantity].values()
        assert value == pytest.approx((2.0 if quantity == RAW else 2**0.5) * 2.0**-26, rel=1e-6)


@pytest.mark.parametrize("fused", [False, True])
def test_a_skipped_step_has_an_infinite_raw_gradient_none_applied_and_no_update(fused: bool) -> None:
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    with ky.Probe(net, optimizer, LEVEL, every=1, scaler=scaler) as probe:
        for step in range(3):
            with probe.step(step):
                optimizer.zero_grad()
                scaler.scale(loss_of(net, (X, Y)) * (1e3 if step == 1 else 1e-3)).backward()
                scaler.step(optimizer)
                scaler.update()
    before, skipped, after = (row.values for row in probe.rows())
    for layer in ("0", "2"):
        assert before[CLIPPED][layer] > 0 and np.isfinite(before[RAW][layer])
        assert not np.isfinite(skipped[RAW][layer]) and np.isnan(skipped[CLIPPED][layer])
        assert np.isnan(skipped["gradient_cosine"][layer]) and skipped["update_norm"][layer] == 0
        assert np.isnan(after["gradient_cosine"][layer]), "the step before it applied none"
        assert np.isfinite(after[RAW][layer]) and after["update_norm"][layer] > 0
    assert len(probe.notes) == 1
    assert probe.notes[0].startswith(
        "weight_gradient_norm, gradient_cosine is not measured at step 1 and any other like it"
    )
    assert "GradScaler" in probe.notes[0]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("resumed", [True, False])
def test_a_scaler_that_was_not_given_is_noticed(fused: bool, given: bool, resumed: bool) -> None:
    """Gradients at outputs used to be too large by a factor of 65,536, without a word."""

    def trained(steps: int, **options: Any) -> ky.Probe:
        net = made()
        optimizer = torch.optim.SGD(net.parameters(), 0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        options = {"optimizer": optimizer if given else None, "level": LEVEL, "every": 1, **options}
        probe = ky.Probe(net, **{name: scaler if name == "scaler" else value for name, value in options.items()})
        probe.attach()
        for step in range(steps):
            with probe.step(step):
                optimizer.zero_grad()
                scaler.scale(loss_of(net, (X, Y)) * (1e3 if step == 0 else 1e-3)).backward()
                scaler.step(optimizer)
                scaler.update()
            if resumed and step == 3:
                probe, old = (
                    ky.Probe(net, **{name: value for name, value in options.items() if name != "scaler"}),
                    probe,
                )
                probe.load_state(old.state())
                probe.attach()
        probe.detach()
        return probe

    probe, right = trained(6), trained(6, scaler=True)
    # step 0 is skipped: a fused optimizer skips it itself, another is not called, and only step 1 shows the scaler
    unknown = [0] + [1] * (not fused) + [4] * resumed
    for name, series in probe.series().items():
        expected = right.series()[name].value.copy()
        expected[unknown if name in (OUTPUT, RAW) else []] = np.nan
        np.testing.assert_allclose(series.value, expected, rtol=1e-6, err_msg=name)
    assert any("a GradScaler multiplied the gradients" in note and "scaler=scaler" in note for note in probe.notes)


def test_a_scaler_is_noticed_at_level_light_and_one_that_does_nothing_is_not() -> None:
    for enabled in (True, False):
        net = made()
        optimizer = torch.optim.Adam(net.parameters())
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        with ky.Probe(net, optimizer, "light", every=1) as probe, probe.step(0):
            scaler.scale(loss_of(net, (X, Y))).backward()
            scaler.step(optimizer)
        norms = probe.rows()[0].values[OUTPUT]
        assert bool(probe.notes) == enabled and all(np.isnan(value) == enabled for value in norms.values())


def test_something_else_as_a_scaler_is_refused() -> None:
    with pytest.raises(KymographError, match=r"scaler must have get_scale\(\), .* and a float has none"):
        ky.Probe(nn.Linear(2, 2), scaler=65536.0)  # type: ignore[arg-type]


def test_each_optimizer_is_read_at_its_own_step() -> None:
    """All gradients used to be read at every optimizer's step, and compared with themselves at the second."""
    net = made()
    first, last = (torch.optim.SGD(net[index].parameters(), 0.1) for index in (0, 2))
    expected: list[tuple[Gradients, Gradients]] = []
    for optimizers in ([first, last], None):
        expected.clear()
        with ky.Probe(net, optimizers, LEVEL, every=1) as probe:
            for step in range(3):
                with probe.step(step):
                    net.zero_grad()
                    loss_of(net, (X, Y)).backward()
                    raw = gradients(net)
                    nn.utils.clip_grad_norm_(net.parameters(), 0.01)
                    clipped = gradients(net)
                    first.step()
                    first.zero_grad()
                    (-loss_of(net, (X[:4], Y[:4]))).backward()  # as of a generator, through a discriminator
                    raw["2"] = gradients(net)["2"]
                    nn.utils.clip_grad_norm_(net.parameters(), 0.005)
                    clipped["2"] = gradients(net)["2"]
                    last.step()
                    last.zero_grad()
                    expected.append((raw, clipped))
        cosines = probe.series()["gradient_cosine"].value
        for index, (raw, clipped) in enumerate(expected):
            values = probe.rows()[index].values
            assert_norms(values[RAW], raw)
            assert_norms(values[CLIPPED], clipped)
            for column, name in enumerate(("0", "2") if index else ()):
                cosine = F.cosine_similarity(clipped[name], expected[index - 1][1][name], dim=0)
                assert cosines[index, column] == pytest.approx(float(cosine), abs=1e-6)


def test_parameters_of_one_layer_may_have_different_optimizers() -> None:
    net = made()
    weights, biases = ([p for name, p in net.named_parameters() if name.endswith(end)] for end in ("weight", "bias"))
    optimizers = [torch.optim.SGD(weights, 0.1), torch.optim.Adam(biases)]
    with ky.Probe(net, optimizers, LEVEL, every=1) as probe, probe.step(0):
        loss_of(net, (X, Y)).backward()
        expected = gradients(net)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert_norms(probe.rows()[0].values[CLIPPED], expected)
    assert_norms(probe.rows()[0].values[RAW], expected)


@pytest.mark.parametrize("by_name", [False, True])
def test_gradients_of_a_closure_are_read_when_it_returns(by_name: bool) -> None:
    """They used to be read before it: those of the step before, or none."""
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    expected: list[tuple[Gradients, Gradients]] = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(net, (X, Y))
        loss.backward()
        raw = gradients(net)
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        expected.append((raw, gradients(net)))
        return loss

    with ky.Probe(net, optimizer, LEVEL, every=1) as probe:
        for step in range(3):
            with probe.step(step):
                loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
                assert float(loss.detach()) > 0
    for row, (raw, clipped) in zip(probe.rows(), expected, strict=True):
        assert_norms(row.values[RAW], raw)
        assert_norms(row.values[CLIPPED], clipped)


class Checkpointed(nn.Sequential):
    """Every layer but the first in a checkpoint of its own; the last is called in two of them."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(3, 3))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self[0](x))
        for index in (1, 1, 2, 3, 3):
            x = torch.tanh(checkpoint(self[index], x, use_reentrant=self.reentrant))
        return x


def _twice_with_the_graph_retained(net: nn.Module) -> None:
    loss = loss_of(net, (X, Y))
    loss.backward(retain_graph=True)
    loss.backward()


def _cleared_between(net: nn.Module, to_none: bool) -> None:
    half_of_it(net, 0).backward()
    net.zero_grad(set_to_none=to_none)
    half_of_it(net, 1).backward()


def _only_a_part_the_second_time(net: nn.Module) -> None:
    loss_of(net, (X, Y)).backward()
    last = list(net.children())[-1] if isinstance(net, nn.Sequential) else net._orig_mod[-1]  # type: ignore[index]
    last(torch.ones(1, last.in_features)).sum().backward()


BACKWARD: dict[str, Callable[[nn.Module], object]] = {
    "once": lambda net: loss_of(net, (X, Y)).backward(),
    "several times": lambda net: [half_of_it(net, half).backward() for half in (0, 1, 0)],
    "retain_graph": _twice_with_the_graph_retained,
    "cleared between": functools.partial(_cleared_between, to_none=True),
    "set to 0 between": functools.partial(_cleared_between, to_none=False),
    "a part only": _only_a_part_the_second_time,
    "create_graph": lambda net: loss_of(net, (X, Y)).backward(create_graph=True),
    "autograd.grad": lambda net: (
        torch.autograd.grad(loss_of(net, (X, Y)), list(net.parameters())), loss_of(net, (X[:3], Y[:3])).backward(),
    ),
}  # fmt: skip


def networks() -> Iterator[tuple[str, Callable[[], nn.Module]]]:
    yield "plain", made
    for reentrant in (False, True):
        yield f"checkpointed, reentrant: {reentrant}", functools.partial(Checkpointed, reentrant)
    for backend in ("eager", "aot_eager"):
        yield f"compiled: {backend}", lambda backend=backend: torch.compile(made(), backend=backend)


@pytest.mark.parametrize("backward", BACKWARD)
@pytest.mark.parametrize("name", [name for name, _ in networks()])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_the_raw_gradient_is_what_the_last_backward_pass_leaves(name: str, backward: str) -> None:
    if backward == "create_graph" and name.startswith(("compiled", "checkpointed, reentrant: True")):
        pytest.skip("torch refuses it")
    if backward == "autograd.grad" and name == "checkpointed, reentrant: True":
        pytest.skip("torch refuses it")
    torch._dynamo.reset()
    trained: list[list[Tensor]] = []
    for probed in (False, True):
        torch.manual_seed(0)
        net = dict(networks())[name]()
        inner: nn.Module = getattr(net, "_orig_mod", net)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        probe = ky.Probe(net, optimizer, [RAW, CLIPPED, "update_norm"], every=1)
        for step in range(3):
            if probed:
                probe.attach()
                probe.begin(step)
            optimizer.zero_grad()
            BACKWARD[backward](net)
            expected = gradients(inner)
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            optimizer.step()
            if probed:
                probe.end()
                assert_norms(probe.rows()[step].values[RAW], expected, f"{name}, {backward}")
        probe.detach()
        trained.append([parameter.detach() for parameter in inner.parameters()])
        for parameter in inner.parameters():
            assert not parameter._post_accumulate_grad_hooks and not parameter._backward_hooks
    assert all(torch.equal(a, b) for a, b in zip(*trained, strict=True))


def test_a_layer_that_no_loss_reaches_has_no_gradient_at_either_point() -> None:
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with ky.Probe(net, optimizer, LEVEL, every=1) as probe, probe.step(0):
        net[0](X).sum().backward()
        optimizer.step()
    values = probe.rows()[0].values
    assert np.isnan(values[RAW]["2"]) and np.isnan(values[CLIPPED]["2"])
    assert values[RAW]["0"] == pytest.approx(values[CLIPPED]["0"], rel=1e-6)


def test_a_backward_pass_before_the_step_and_a_step_without_an_update_are_noted() -> None:
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with ky.Probe(net, optimizer, LEVEL, every=1) as probe:
        loss_of(net, (X, Y)).backward()
        with probe.step(0):
            optimizer.step()
    assert np.isnan(probe.rows()[0].values[RAW]["0"]) and probe.rows()[0].values[CLIPPED]["0"] > 0
    assert any("no backward pass ended inside the measured step" in note for note in probe.notes)
    with ky.Probe(net, optimizer, LEVEL, every=1) as probe, probe.step(0):
        loss_of(net, (X, Y)).backward()
    assert np.isnan(probe.rows()[0].values[CLIPPED]["0"]) and probe.rows()[0].values[RAW]["0"] > 0
    assert any(note.endswith("at step 0 and any other like it: no optimizer made a step") for note in probe.notes)


def test_a_failed_step_leaves_nothing_for_the_next() -> None:
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with ky.Probe(net, optimizer, LEVEL, every=1) as probe:
        with pytest.raises(ZeroDivisionError), probe.step(0):
            loss_of(net, (X, Y)).backward()
            raise ZeroDivisionError
        net.zero_grad()
        with probe.step(1):
            net[0](X).sum().backward()
            optimizer.step()
    values = probe.rows()[0].values
    assert np.isnan(values[RAW]["2"]) and np.isnan(values[CLIPPED]["2"]) and values[RAW]["0"] > 0


def test_the_eager_twin_has_a_loss_of_its_own_which_no_scaler_scales() -> None:
    torch._dynamo.reset()
    norms = []
    for scaled in (False, True):
        net = torch.compile(made(), backend="eager")
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        options: dict[str, Any] = {"loss": loss_of, "batch": (X, Y), "scaler": scaler}
        with ky.Probe(net, optimizer, LEVEL, every=1, **options) as probe, probe.step(0):
            scaler.scale(loss_of(net, (X, Y))).backward()
            scaler.step(optimizer)
        norms.append(probe.rows()[0].values)
    for quantity, values in norms[0].items():
        assert norms[1][quantity] == pytest.approx(values, rel=1e-6, nan_ok=True), quantity


def micro_batches(net: nn.Module, names: list[str], parts: list[slice]) -> ky.Probe:
    """Returns a probe that has read one step over the given parts of the batch."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with ky.Probe(net, optimizer, names, every=1) as probe, probe.step(0):
        for part in parts:
            loss_of(net, (X[part], Y[part])).backward()
        optimizer.step()
    return probe


class TwoWidths(nn.Module):
    """A ReLU that is called twice, at different widths."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(6, 5), nn.Linear(5, 40), nn.Linear(40, 3)
        self.relu = nn.ReLU()
        with torch.no_grad():
            self.first.bias -= 1.0
            self.second.bias -= 0.7

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.relu(self.second(self.relu(self.first(x)))))


@pytest.mark.parametrize("reentrant", [None, True])
def test_a_unit_is_dead_if_it_is_so_in_every_micro_batch(reentrant: bool | None) -> None:
    """Units of every micro-batch used to be counted as if they were others, so that one could be half dead."""
    net = TwoWidths()
    wrapped = nn.Sequential(net)
    if reentrant:
        wrapped.forward = lambda x: checkpoint(net, x.requires_grad_(), use_reentrant=True)  # type: ignore[method-assign]
    names = ["dead_fraction", "unit_count"]
    parts = [slice(start, start + 3) for start in range(0, 12, 3)]
    whole, split = (micro_batches(wrapped, names, part).rows()[0].values for part in ([slice(0, 12)], parts))
    hidden = torch.relu(net.first(X))
    dead = int((hidden == 0).all(0).sum()) + int((torch.relu(net.second(hidden)) == 0).all(0).sum())
    in_parts = [int((torch.relu(net.first(X[part])) == 0).all(0).sum()) for part in parts]
    assert dead > 0 and sum(in_parts) > 4 * int((hidden == 0).all(0).sum()), "the parts differ from the whole"
    assert whole == split and whole["dead_fraction"]["0.relu"] == pytest.approx(dead / 45)


def test_what_does_not_follow_from_micro_batches_is_nan_with_a_note() -> None:
    """The mean of their effective ranks used to be given for that of the batch."""
    probe = micro_batches(made(), ["effective_rank"], [slice(0, 6), slice(6, 12)])
    assert all(np.isnan(value) for value in probe.rows()[0].values["effective_rank"].values())
    assert probe.notes == (
        "effective_rank is not measured: that of a batch does not follow from those of its micro-batches",
    )
    whole = micro_batches(made(), ["effective_rank"], [slice(0, 12)])
    assert whole.notes == () and all(value > 1 for value in whole.rows()[0].values["effective_rank"].values())


def test_calls_that_differ_between_micro_batches_are_nan_with_a_note() -> None:
    net = TwoWidths()
    with ky.Probe(net, level=["dead_fraction"], every=1) as probe, probe.step(0):
        loss_of(net, (X, Y)).backward()
        net.relu(net.first(X)).sum().backward()
    assert np.isnan(probe.rows()[0].values["dead_fraction"]["relu"])
    assert "live_units is not measured: the layer's calls differ between the micro-batches" in probe.notes


def test_attention_is_read_in_a_reentrant_checkpoint_and_not_in_an_evaluation() -> None:
    """In the first it used to be NaN without a note, and the second was counted."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 2)
    values = []
    for kind in ("plain", "reentrant", "evaluating"):
        with ky.Probe(attention, level=["attention_entropy"], every=1) as probe, probe.step(0):
            x = X[:, None].clone().requires_grad_()
            if kind == "reentrant":
                checkpoint(lambda x: attention(x, x, x)[0], x, use_reentrant=True).sum().backward()
            else:
                attention(x, x, x)[0].sum().backward()
            if kind == "evaluating":
                with torch.no_grad():
                    attention(5 * x, 5 * x, x)
        values.append(probe.rows()[0].values)
    assert values[0] == values[1] == values[2] and values[0]["attention_entropy"]["(model)"] > 0


def test_a_run_watches_with_its_scaler(tmp_path: Path) -> None:
    for scaled in (False, True):
        net = made()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        with ky.record("points", arm=f"scaled {scaled}", seed=0, out=tmp_path, device="cpu") as run:
            run.watch(net, optimizer, every=1, level=LEVEL, scaler=scaler)
            for _ in run.steps(2):
                optimizer.zero_grad()
                scaler.scale(loss_of(net, (X, Y))).backward()
                scaler.step(optimizer)
                scaler.update()
    plain, scaled_run = (one.series for one in ky.Store.open(tmp_path).finished)
    for name in LEVEL:
        np.testing.assert_allclose(scaled_run[name].value, plain[name].value, rtol=1e-6, err_msg=name)


def _train_in_two_processes(rank: int, meeting: str, results: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    net = nn.parallel.DistributedDataParallel(made(), bucket_cap_mb=1e-4)  # a bucket per parameter
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    mine = slice(6 * rank, 6 * rank + 6)
    with ky.Probe(net, optimizer, [RAW, CLIPPED], every=1) as probe:
        for step in range(2):
            with probe.step(step):
                optimizer.zero_grad()
                loss_of(net, (X[mine], Y[mine])).backward()
                optimizer.step()
    np.savez(f"{results}/{rank}.npz", **{name: series.value for name, series in probe.series().items()})
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_gradients_are_read_after_they_have_been_averaged_over_processes(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_train_in_two_processes, (str(tmp_path / "meeting"), str(tmp_path)), nprocs=2)
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with ky.Probe(net, optimizer, [RAW], every=1) as probe:
        for step in range(2):
            with probe.step(step):
                optimizer.zero_grad()
                loss_of(net, (X, Y)).backward()
                optimizer.step()
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for name in (RAW, CLIPPED):
                np.testing.assert_allclose(found[name], probe.series()[RAW].value, rtol=1e-5, err_msg=name)


def test_micro_batches_are_one_batch_where_no_watched_layer_has_a_parameter() -> None:
    """A unit is dead if it is 0 for every sample of the step, also if only the ReLU is watched."""
    shares = {}
    for layers in (None, ["1"]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
        batches = torch.randn(2, 3, 6)
        with ky.Probe(net, level=["dead_fraction"], every=1, layers=layers) as probe, probe.step(0):
            for batch in batches:
                net(batch).square().mean().backward()
        series = probe.series()["dead_fraction"]
        shares[layers is None] = series.value[0, series.sites.index("1")]
        output = net[1](net[0](batches.flatten(0, 1)))
    assert shares[True] == shares[False] == pytest.approx(float((output == 0).all(0).double().mean()))


def test_a_step_that_was_not_ended_is_dropped_when_the_next_begins() -> None:
    net = made()
    x = torch.randn(4, net[0].in_features)
    norms = []
    for abandoned in (0, 2):
        with ky.Probe(net, level=["output_norm"], every=1) as probe:
            if abandoned:
                probe.begin(0)
                for _ in range(abandoned):
                    net(100 * x)
            probe.begin(1)
            net(x)
            probe.end()
        norms.append(probe.series()["output_norm"])
    assert norms[0].step.tolist() == norms[1].step.tolist() == [1]
    np.testing.assert_array_equal(norms[0].value, norms[1].value)
