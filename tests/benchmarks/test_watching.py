from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from benchmarks.watching import NETWORKS, Cost, Network, Transformer, measure, mlp, render, resnet, training

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
