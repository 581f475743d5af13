from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from benchmarks.watching import NETWORKS, Cost, Network, Transformer, measure, mlp, render, resnet, training
from torch import nn
from torch.utils.checkpoint import checkpoint

import kymograph as ky
from benchmarks import watching

FEW = {"steps": 1, "warm": 1, "rounds": 2}
SMALL = {
    "watching-transformer": lambda: Transformer(depth=1, width=12, heads=2),
    "watching-resnet": lambda: resnet((4, 8), blocks=1),
    "watching-mlp": lambda: mlp(784, 12, 10),
}


def small(name: str) -> Network:
    """Returns a network of few parameters that is trained and watched in the same way."""
    return replace(NETWORKS[name], build=SMALL[name], **FEW)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in SMALL for way in NETWORKS[name].limits])
def test_a_watched_loop_learns_the_same_bits_as_the_plain_one(name: str, way: str) -> None:
    with ExitStack() as ending:
        (plain, bare), (watched, net) = training(small(name), "plain", ending), training(small(name), way, ending)
        for step in range(3):
            plain(step)
            watched(step)
    for (key, expected), found in zip(bare.state_dict().items(), net.state_dict().values(), strict=True):
        assert torch.equal(expected, found), key


def test_the_deep_level_learns_the_same_bits() -> None:
    test_a_watched_loop_learns_the_same_bits_as_the_plain_one("watching-mlp", "deep")


def test_the_hooks_written_by_hand_read_every_layer_and_parameter_at_every_step() -> None:
    net = mlp(4, 3, 2)
    hooks = watching.HandWrittenHooks(net)
    for _ in range(2):
        with hooks.step():
            net(torch.randn(5, 4)).sum().backward()
    assert [row.shape for row in hooks.rows] == [(3 + 3 + 2 * 4,)] * 2, "outputs, their gradients, weights and updates"


def readings_by_hand(loop: Callable[[], None], net: nn.Module) -> list[float]:
    """Returns what hooks written by hand append in one loop, weights and updates aside."""
    hooks = watching.HandWrittenHooks(net)
    loop()
    return [float(norm) for norm in hooks.row]


def test_what_hooks_written_by_hand_get_wrong_where_a_probe_does_not() -> None:
    """The three cases of docs/probes.md."""
    x, net = torch.randn(5, 4), mlp(4, 3, 2)
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    assert readings_by_hand(lambda: compiled(x).sum().backward(), compiled) == [], "nothing, and no word about it"
    with pytest.raises(ky.KymographError, match="the model is compiled, so no hook runs inside it"):
        ky.Probe(compiled, level="light")

    def checkpointed() -> None:
        checkpoint(net, x, use_reentrant=False).sum().backward()

    def tiny() -> None:
        (1e-30 * net(x).sum()).backward()

    assert len(readings_by_hand(checkpointed, net)) > 6, "three outputs and three gradients: some are read twice"
    assert readings_by_hand(tiny, net)[-3:] == [0.0] * 3, "squares of 1e-30 underflow"
    for loop in (checkpointed, tiny):
        with ky.Probe(net, level="light", every=1) as probe, probe.step(0):
            loop()
        readings = {name: probe.series()[name].value[0] for name in ("output_norm", "output_gradient_norm")}
        assert all(len(values) == 3 and (values > 0).all() for values in readings.values())


def test_the_networks_have_the_sizes_that_the_page_gives() -> None:
    def parameters(name: str) -> int:
        return sum(parameter.numel() for parameter in NETWORKS[name].build().parameters())

    assert 2_650_000 < parameters("watching-transformer") < 2_750_000
    assert 260_000 < parameters("watching-resnet") < 280_000
    assert 95_000 < parameters("watching-mlp") < 105_000


def test_the_least_of_all_rounds_counts_and_the_threads_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setitem(NETWORKS, "watching-mlp", small("watching-mlp"))
    costs = measure("watching-mlp")
    assert [cost.way for cost in costs] == ["hooks by hand", "recording", "light", "standard"]
    assert all(cost.plain == costs[0].plain > 0 < cost.watched for cost in costs)
    assert torch.get_num_threads() == threads


def test_a_cost_over_its_limit_is_said_and_shown() -> None:
    kept, over = Cost("x", "net", "light", 0.2, 0.22, 1.1), Cost("x", "net", "standard", 0.2, 0.25, 1.2)
    assert kept.over_limit() == "" and Cost("x", "net", "light", 1.0, 9.0).over_limit() == ""
    assert over.over_limit() == "x: standard takes 1.250 times as long as the loop without it, above the limit of 1.20"
    assert "| net | 200 ms | a probe at level `standard` | 1.250 | 1.20 |" in render([kept, over])
