from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph._errors import KymographError
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.layers.weights import NamedTensors, WeightTable, same_layout, viewed_like, weights_of


def test_a_weight_is_known_again_in_every_view_of_it() -> None:
    weights = {"a": torch.randn(6, 4), "b": torch.randn(3, 5)}
    feedback = {name: torch.arange(own.numel()).view(own.shape).float() for name, own in weights.items()}
    table = WeightTable(weights)
    for view, same in (
        (weights["a"], feedback["a"]),
        (weights["a"].t(), feedback["a"].t()),
        (weights["a"].chunk(3)[1], feedback["a"].chunk(3)[1]),
        (weights["a"][:, 1:3].t(), feedback["a"][:, 1:3].t()),
        (weights["b"].view(5, 3), feedback["b"].view(5, 3)),
    ):
        use = table.find(view)
        assert use is not None
        assert torch.equal(viewed_like(feedback[use.name], view, use), same)
    assert table.find(weights["a"] * 2) is None and table.find(weights["a"].clone()) is None


def test_weights_that_lie_in_one_row_are_told_apart() -> None:
    net = ResidualMLP(8, 1, 3, depth=2, width=4)
    FlatNetwork(net)
    table = WeightTable(weights_of(net))
    for name, own in weights_of(net).items():
        use = table.find(own)
        assert use is not None and use == (name, 0)


def test_feedback_has_the_layout_of_its_weight() -> None:
    kernel = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    values = torch.randn(4, 3, 2, 2)
    found = same_layout(values, kernel)
    assert torch.equal(found, values) and found.stride() == kernel.stride()
    with pytest.raises(KymographError, match="without gaps"):
        same_layout(values[0, 0], torch.randn(2, 4)[:, ::2])


def test_tensors_are_buffers_under_the_names_of_their_parameters() -> None:
    named = NamedTensors({"blocks.0.weight": torch.ones(2), "weight": torch.zeros(1)})
    assert set(named.state_dict()) == {"blocks.0.weight", "weight"} == set(named)
    named["weight"] = torch.ones(3)
    assert named["weight"].shape == (3,) and "blocks.0.weight" in named and "blocks" not in named
    assert named.double()["blocks.0.weight"].dtype == torch.float64


def test_biases_and_tables_that_are_only_looked_up_are_no_weights() -> None:
    net = nn.ModuleDict({"words": nn.Embedding(5, 3), "mix": nn.Linear(3, 3), "norm": nn.LayerNorm(3)})
    assert list(weights_of(net)) == ["mix.weight"]
