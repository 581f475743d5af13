"""A probe on modules and loops that others break on: it measures or says in a sentence why not, and leaves no trace."""

from __future__ import annotations

import gc
import itertools
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._probes.quantities import QUANTITIES, chosen
from tests.devices.pretended import pretended_device
from tests.probes.awkward import LOOPS, NETWORKS, X, Y, loss_of, made, trained

BATCH = {"loss": loss_of, "batch": (X, Y)}


def weights(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def run(name: str, loop: str = "ordinary", steps: int = 3, **options: Any) -> tuple[ky.Probe, nn.Module]:
    """Trains the awkward network called ``name`` with a probe at every step; returns the detached probe."""
    net = made(name)
    found: list[ky.Probe] = []

    def probe(net: nn.Module, optimizer: torch.optim.Optimizer) -> ky.Probe:
        found.append(ky.Probe(net, optimizer, **{"level": "standard", "every": 1, **options}))
        found[0].attach()
        return found[0]

    for _ in trained(net, loop, steps, probe):
        pass
    found[0].detach()
    return found[0], net


@pytest.mark.parametrize("steps", [30, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("level", ["light", "standard", "deep"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore")
def test_weights_are_bit_identical_after_all_steps_and_nothing_crashes(name: str, level: str, steps: int) -> None:
    every = {"light": 1, "standard": 3, "deep": steps // 4}[level]
    bare = made(name)
    for _ in trained(bare, steps=steps):
        pass
    probe, net = run(name, steps=steps, level=level, every=every, **(BATCH if level == "deep" else {}))
    assert all(torch.equal(a, b) for a, b in zip(bare.state_dict().values(), net.state_dict().values(), strict=True))
    assert len(probe.rows()) == -(-steps // every)
    for series in probe.series().values():
        assert series.value.dtype == np.float64
    assert np.isfinite(probe.series()["weight_norm"].value).all()
    assert all("not measured: " in note for note in probe.notes)


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_train_the_same_bits(loop: str) -> None:
    bare = made("plain")
    for _ in trained(bare, loop, 30):
        pass
    _, net = run("plain", loop, steps=30, level="deep", every=2, **BATCH)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), net.parameters(), strict=True))


def test_norms_are_those_of_the_activations_and_gradients_themselves_whatever_is_written_in_place() -> None:
    probe, _ = run("in-place", steps=1)
    net = made("in-place")
    first, _, last = net
    before = F.linear(X, first.weight, first.bias).detach().requires_grad_()
    after = torch.relu(before)
    after.retain_grad()
    logits = last(after)
    logits.retain_grad()
    F.cross_entropy(logits, Y).backward()
    values = probe.rows()[0].values
    for site, tensor in (("0", before), ("1", after), ("2", logits)):
        assert values["output_norm"][site] == pytest.approx(float(tensor.detach().norm()), rel=1e-6)
        assert values["output_gradient_norm"][site] == pytest.approx(float(tensor.grad.norm()), rel=1e-6)
        rms = float(tensor.detach().square().mean().sqrt())
        assert values["output_rms"][site] == pytest.approx(rms, rel=1e-6)
    assert values["dead_fraction"] == {"1": float((after == 0).all(0).double().mean())}


@pytest.mark.parametrize("loop", ["ordinary", "clipped", "accumulating"])
def test_weights_updates_and_gradients_are_measured_as_the_optimizer_sees_them(loop: str) -> None:
    probe, _ = run("plain", loop, steps=4)
    net = made("plain")
    states, gradients = [weights(net)], []
    for trained_net in trained(net, loop, 4):
        states.append(weights(trained_net))
        gradients.append({name: parameter.grad.clone() for name, parameter in net.named_parameters()})
    for step, row in enumerate(probe.rows()):
        for layer in ("0", "2", "5"):
            names = [f"{layer}.weight", f"{layer}.bias"]
            joined = [torch.cat([state[name].flatten() for name in names]).double() for state in states]
            slopes = [torch.cat([one[name].flatten() for name in names]).double() for one in gradients]
            update = float((joined[step + 1] - joined[step]).norm())
            assert row.values["weight_norm"][layer] == pytest.approx(float(joined[step].norm()), rel=1e-6)
            assert row.values["update_norm"][layer] == pytest.approx(update, rel=1e-5)
            assert row.values["update_ratio"][layer] == pytest.approx(update / float(joined[step].norm()), rel=1e-5)
            assert row.values["weight_gradient_norm"][layer] == pytest.approx(float(slopes[step].norm()), rel=1e-6)
            cosine = row.values["gradient_cosine"][layer]
            if step == 0:
                assert np.isnan(cosine)
            else:
                pair = torch.stack([slopes[step], slopes[step - 1]])
                assert cosine == pytest.approx(float(torch.corrcoef(torch.cat([pair, -pair], 1))[0, 1]), rel=1e-6)


def test_missing_is_nan_and_never_0() -> None:
    values = run("frozen and unused")[0].rows()[-1].values
    assert np.isnan(values["output_norm"]["unused"]) and np.isnan(values["output_gradient_norm"]["unused"])
    assert np.isnan(values["weight_gradient_norm"]["unused"]) and np.isnan(values["gradient_cosine"]["frozen"])
    assert values["output_norm"]["frozen"] > 0 and np.isnan(values["output_gradient_norm"]["frozen"])
    assert values["weight_norm"]["unused"] > 0
    assert values["update_norm"]["frozen"] == 0 == values["update_ratio"]["unused"], "measured, and nothing moved"


def test_calls_of_one_layer_are_measured_together() -> None:
    probe, _ = run("repeated", steps=1, layers=["cell", "act"])
    net = made("repeated")
    x, outputs = net.first(X), []
    for _ in range(3):
        outputs.append(net.cell(x))
        x = torch.relu(outputs[-1])
    gradients = torch.autograd.grad(F.cross_entropy(net.head(x), Y), outputs)
    values = probe.rows()[0].values
    assert values["output_norm"]["cell"] == pytest.approx(float(torch.cat(outputs).detach().norm()), rel=1e-6)
    assert values["output_gradient_norm"]["cell"] == pytest.approx(float(torch.cat(gradients).norm()), rel=1e-6)
    dead = sum(float((one <= 0).all(0).double().mean()) for one in outputs) / 3
    assert values["dead_fraction"]["act"] == pytest.approx(dead)


def test_micro_batches_are_measured_as_the_batch_that_they_make_up() -> None:
    net = "in-place"  # no dropout, so that the same batch gives the same numbers
    whole, parts = run(net, "ordinary", 1)[0].rows()[0].values, run(net, "accumulating", 1)[0].rows()[0].values
    for quantity in ("output_norm", "output_gradient_norm", "output_rms", "weight_gradient_norm", "update_norm"):
        for layer, value in whole[quantity].items():
            assert parts[quantity][layer] == pytest.approx(value, rel=1e-4), (quantity, layer)


@pytest.mark.parametrize("name", ["checkpointed", "checkpointed, re-entrant"])
@pytest.mark.filterwarnings("ignore")
def test_checkpointed_layers_are_measured_once(name: str) -> None:
    probe, _ = run(name, steps=1, loop="ordinary")
    values = probe.rows()[0].values
    assert set(values["output_norm"]) == {"first", "block.0", "block.1", "block.2", "block.3", "head"}
    assert all(value > 0 for value in values["output_norm"].values())
    assert all(value > 0 for value in values["output_gradient_norm"].values())
    net = made(name)
    hidden = net.block[0](net.first(X))
    assert values["output_norm"]["block.0"] == pytest.approx(float(hidden.detach().norm()), rel=1e-6), "not twice"


def test_evaluation_without_gradients_is_not_part_of_the_step() -> None:
    with_it, without = run("plain", "evaluating", 1)[0].rows()[0], run("plain", "ordinary", 1)[0].rows()[0]
    assert with_it.values["output_norm"] == without.values["output_norm"]


@pytest.mark.parametrize(
    ("name", "sites"),
    [
        ("dict", {"body[a]", "body[b][0]", "head"}),
        ("tuple", {"body[0]", "body[1]", "head"}),
        ("one in a tuple", {"body", "head"}),
        ("namedtuple", {"body[0]", "body[1]", "head"}),
        ("dataclass", {"body.logits", "body.extra", "head"}),
        ("recurrent", {"rnn[0]", "rnn[1][0]", "rnn[1][1]", "head"}),
        ("wrapped", {"0", "1", "2", "3", "4", "5"}),
        ("parametrized", {"0", "1", "2"}),
        ("attention", {"embed", "head", *(f"layer.{one}" for one in (
            "self_attn", "linear1", "dropout", "linear2", "norm1", "norm2", "dropout1", "dropout2"))}),
    ],
)  # fmt: skip
def test_every_tensor_of_an_output_has_a_name(name: str, sites: set[str]) -> None:
    values = run(name)[0].rows()[-1].values
    assert set(values["output_norm"]) == sites
    assert all(value > 0 for value in values["output_norm"].values())
    assert all("." not in layer or layer.startswith("layer.") for layer in values["weight_norm"])


@pytest.mark.parametrize(
    ("name", "note"),
    [("odd", "inner is not measured: it returns a Box"), ("torch.func", "inner is not measured: it is called inside")],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(name: str, note: str) -> None:
    probe, _ = run(name)
    assert len(probe.notes) == 1 and probe.notes[0].startswith(note)
    assert np.isnan(probe.rows()[-1].values["output_norm"]["inner"])


def test_half_precision_is_measured_in_float32() -> None:
    values = run("plain", "autocast", 1)[0].rows()[0].values
    full = run("plain", "ordinary", 1)[0].rows()[0].values
    for layer in ("0", "1", "2"):
        assert values["output_norm"][layer] == pytest.approx(full["output_norm"][layer], rel=1e-2)


def test_entropy_of_attention_is_that_of_its_weights() -> None:
    probe, _ = run("attention", steps=1, level=["attention_entropy"])
    net = made("attention").eval()
    embedded = net.embed(X.view(12, 3, 2))
    attention = net.layer.self_attn(embedded, embedded, embedded, need_weights=True, average_attn_weights=False)[
        1
    ].detach()
    entropy = float(-(attention * attention.log()).sum(-1).mean())
    assert probe.rows()[0].values["attention_entropy"] == {"layer.self_attn": pytest.approx(entropy, rel=1e-5)}
    assert (
        "scaled_dot_product_attention cannot be seen" in run("own attention", level=["attention_entropy"])[0].notes[0]
    )


def test_a_detached_probe_leaves_no_trace_and_keeps_nothing_alive() -> None:
    net = made("plain")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    attributes = {name: set(vars(module)) for name, module in net.named_modules()}
    probe = ky.Probe(net, optimizer, level="deep", every=2, **BATCH)
    with probe:
        with probe.step(0) as measured:
            assert measured and any(module._forward_hooks for module in net.modules())
            optimizer.zero_grad()
            kept = loss_of(net, (X, Y))
            kept.backward(retain_graph=True)
        assert not any(module._forward_hooks for module in net.modules()), "none between measured steps"
        with probe.step(1) as measured:
            assert not measured
        rows = probe.rows()
        kept.backward()
    assert probe.rows() == rows or str(probe.rows()) == str(rows), "a graph that is kept tells the probe nothing more"
    assert {name: set(vars(module)) for name, module in net.named_modules()} == attributes
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
    for module in net.modules():
        assert not module._forward_hooks and not module._backward_hooks and not module._forward_pre_hooks
    output, graph = weakref.ref(kept), weakref.ref(net)
    assert all(parameter.requires_grad for parameter in net.parameters())
    del kept
    gc.collect()
    assert output() is None, "no graph is kept"
    del probe, net, optimizer, module
    gc.collect()
    assert graph() is None


def test_the_global_generator_is_not_touched() -> None:
    net = made("attention")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with ky.Probe(net, optimizer, level="deep", every=1, **BATCH) as probe:
        state = torch.get_rng_state()
        probe.begin(0)
        assert torch.equal(torch.get_rng_state(), state)
        gradients = [parameter.grad for parameter in net.parameters()]
        assert gradients == [None] * len(gradients) and net.training
        probe.end()


def test_a_step_that_fails_is_dropped_and_the_error_passes_through() -> None:
    net = made("plain")
    with ky.Probe(net, every=1) as probe:
        with pytest.raises(ZeroDivisionError), probe.step(0):
            net(X)
            raise ZeroDivisionError
        assert not any(module._forward_hooks for module in net.modules())
        with probe.step(1):
            net(X).sum().backward()
    assert [row.step for row in probe.rows()] == [1]


@pytest.mark.parametrize("inside", [False, True])
def test_a_compiled_model_is_measured_on_its_eager_twin_or_refused_in_a_sentence(inside: bool) -> None:
    def compiled() -> nn.Module:
        net = made("in-place")
        if inside:
            net[0].compile(backend="eager")
            return net
        return torch.compile(net, backend="eager")  # type: ignore[return-value]

    with pytest.raises(KymographError, match=r"the model is compiled, .*give loss= and batch="):
        ky.Probe(compiled())
    torch._dynamo.reset()
    bare = compiled()
    for _ in trained(bare, steps=20):
        pass
    net, made_probe = compiled(), []

    def probe(net: nn.Module, optimizer: torch.optim.Optimizer) -> ky.Probe:
        made_probe.append(ky.Probe(net, optimizer, level="standard", every=1, **BATCH))
        made_probe[0].attach()
        return made_probe[0]

    for _ in trained(net, steps=20, probe=probe):
        pass
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), net.parameters(), strict=True))
    eager = run("in-place", steps=20)[0].series()
    for name, series in made_probe[0].series().items():
        np.testing.assert_allclose(series.value, eager[name].value, rtol=1e-4, err_msg=name)
        assert series.sites == eager[name].sites


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": "deep"}, "sharpness .* need loss= and batch="),
        ({"level": "heavy"}, "there is no level 'heavy'; use light, standard or deep"),
        ({"level": ["output_nrom"]}, "there is no quantity 'output_nrom'; did you mean 'output_norm'"),
        ({"layers": ["blocks.*"]}, "no layer matches 'blocks"),
        ({"every": 0}, "every must be a whole number of at least 1"),
        ({"budget": -1.0}, "budget must be a positive share"),
        ({"optimizer": object()}, "optimizer must be a torch optimizer, not a object"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    net = made("plain")
    with pytest.raises(KymographError, match=sentence):
        ky.Probe(net, **options)
    assert not any(module._forward_hooks for module in net.modules())


def test_messages_offer_the_quantities_that_the_pages_describe_under_their_names() -> None:
    """They used to offer counts that other quantities are computed from, which are described nowhere."""
    with pytest.raises(KymographError) as refused:
        ky.Probe(nn.Linear(2, 2), level="lite")
    page = (Path(__file__).parents[2] / "docs/howto/probe.md").read_text()
    listed = str(refused.value).partition("quantities: ")[2].split(", ")
    assert "output_norm" in listed and {"unit_count", "output_size"}.isdisjoint(listed)
    assert [name for name in listed if f"`{name}`" not in page] == []
    assert ky.Probe(nn.Linear(2, 2), level=["output_size"]).names == ("output_size",)


def test_a_probe_whose_steps_were_never_begun_says_so() -> None:
    """It used to have no readings and nothing to say about it."""
    net, x = nn.Linear(2, 2), torch.ones(3, 2)
    with ky.Probe(net, every=1) as probe:
        net(x).sum().backward()
    assert probe.rows() == [] and any("no step was begun" in note for note in probe.notes)
    with ky.Probe(net, every=1) as used, used.step(0):
        net(x).sum().backward()
    assert len(used.rows()) == 1 and used.notes == ()
    again = ky.Probe(net, every=1)
    again.load_state(used.state())
    again.attach()
    assert again.notes == (), "what was measured before a kill counts"


def test_weights_that_are_not_there_are_refused() -> None:
    with pytest.raises(KymographError, match="has no weights yet; run one forward pass"):
        ky.Probe(nn.Sequential(nn.LazyLinear(3)))
    with pytest.raises(KymographError, match="on the meta device"):
        ky.Probe(nn.Linear(2, 2, device="meta"))
    with pytest.raises(KymographError, match="not attached"), ky.Probe(nn.Linear(2, 2)).step(0):
        pass


def test_layers_are_chosen_by_name_or_pattern() -> None:
    assert set(run("attention", layers=["layer.linear*"])[0].rows()[0].values["weight_norm"]) == {
        "layer.linear1", "layer.linear2",
    }  # fmt: skip
    containers = run("attention", layers=["layer"], level="light")[0].rows()[0].values
    assert containers["output_norm"]["layer"] > 0
    alone, net = nn.Linear(6, 3), None
    with ky.Probe(alone, every=1) as probe, probe.step(0):
        loss_of(alone, (X, Y)).backward()
    assert net is None and set(probe.rows()[0].values["output_norm"]) == {"(model)"}


def test_several_optimizers_and_none() -> None:
    net = made("in-place")
    first, last = torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.SGD(net[2].parameters(), lr=0.1)
    for given in ([first, last], None):
        with ky.Probe(net, given, level="standard", every=1) as probe, probe.step(0):
            net.zero_grad()
            loss_of(net, (X, Y)).backward()
            first.step()
            last.step()
        norms = probe.rows()[0].values["weight_gradient_norm"]
        assert norms["0"] == pytest.approx(float(torch.cat([p.grad.flatten() for p in net[0].parameters()]).norm()))
        assert norms["2"] > 0


def test_series_are_what_records_hold_and_levels_nest() -> None:
    probe, _ = run("plain", steps=5)
    series = probe.series()
    assert set(series) == set(chosen("standard"))
    assert set(chosen("light")) < set(chosen("standard")) < set(chosen("deep"))
    assert series["output_norm"].value.shape == (5, 6) and series["output_norm"].sites == ("0", "1", "2", "3", "4", "5")
    assert series["output_norm"].step.tolist() == list(range(5))
    for row, value in zip(probe.rows(), series["output_norm"].value, strict=True):
        assert list(row.values["output_norm"].values()) == value.tolist()
    assert [row.step for row in probe.rows(since=3)] == [3, 4]
    assert all(
        QUANTITIES.part(name).about and "unit" in QUANTITIES.part(name).properties for name in QUANTITIES.names()
    )


def test_rows_that_change_their_shape_are_kept_apart() -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.calls = nn.Linear(6, 3), nn.Linear(6, 3), itertools.count()

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) if next(self.calls) % 3 else self.b(x)

    net = Sometimes()
    with ky.Probe(net, every=1) as probe:
        for step in range(150):
            with probe.step(step):
                loss_of(net, (X, Y)).backward()
    value = probe.series()["output_norm"].value
    assert value.shape == (150, 2)
    np.testing.assert_array_equal(np.isnan(value[:, 0]), np.arange(150) % 3 == 0)
    np.testing.assert_array_equal(np.isnan(value[:, 1]), np.arange(150) % 3 != 0)


def test_parts_on_several_devices_are_measured_where_they_are() -> None:
    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.near, self.far = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.far(torch.relu(self.near(x)).to(self.far.weight.device)).to(x.device)

    def trained_on(device: str) -> dict[str, Any]:
        torch.manual_seed(0)
        net = Split()
        net.far.to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with ky.Probe(net, optimizer, level="standard", every=1) as probe:
            for step in range(3):
                with probe.step(step):
                    optimizer.zero_grad()
                    loss_of(net, (X, Y)).backward()
                    optimizer.step()
        assert probe.notes == ()
        return probe.series()

    here = trained_on("cpu")
    with pretended_device("cuda"):
        there = trained_on("cuda")
    for name, series in here.items():
        # the CPU sums in another order than the norms of tensors that stay on their device
        np.testing.assert_allclose(there[name].value, series.value, rtol=1e-6, atol=1e-6, err_msg=name)
