"""Blocks are measured by default: the residual stream after each, and the norms of all parameters inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.watching import Transformer, resnet
from torch import Tensor, nn

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._probes.layers import find_layers
from kymograph._probes.quantities import LoadedQuantity, QuantityInput, load
from kymograph._probes.weights import WeightReader

WIDTH = 6


class Block(nn.Module):
    """Adds a perceptron to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 8), nn.GELU(), nn.Linear(8, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


class ScaledBlock(Block):
    """Has a parameter of its own, as the blocks of a ConvNeXt have."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.mlp(self.norm(x))


class TiedBlock(nn.Module):
    """Uses one weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(torch.tanh(self.a(x)))


class MixedBlock(Block):
    """Has weights of two types."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp[2].to(torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp[2](self.mlp[1](self.mlp[0](self.norm(x))).double()).float()


class PartlyFrozenBlock(Block):
    """Trains its perceptron only."""

    def __init__(self) -> None:
        super().__init__()
        self.norm.requires_grad_(False)


class Stage(nn.Module):
    """Holds blocks, and is one of several."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), ScaledBlock(), Block(), TiedBlock()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class TupleBlock(Block):
    """Returns the stream in a tuple, as those of language models do."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x), None


class Stack(nn.Module):
    """Embeds, applies blocks, and reads out."""

    def __init__(self, make: Callable[[], nn.Module], depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(4, WIDTH)
        self.model = nn.ModuleDict({"layers": nn.ModuleList([make() for _ in range(depth)])})
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stream(x)[-1])

    def stream(self, x: Tensor) -> list[Tensor]:
        points = [self.embed(x)]
        for block in self.model["layers"]:
            out = block(points[-1])
            points.append(out[0] if isinstance(out, tuple) else out)
        return points


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def probed(net: nn.Module, steps: int = 3, **options: Any) -> tuple[ky.Probe, list[dict[str, list[Tensor]]]]:
    """Trains ``net`` and returns its probe, and weights and gradients of every parameter before each step, by name."""
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    seen = []
    with ky.Probe(net, optimizer, **{"level": "standard", "every": 1, **options}) as probe:
        for step in range(steps):
            before = [parameter.detach().clone() for parameter in net.parameters()]
            with probe.step(step):
                optimizer.zero_grad()
                net(X).square().mean().backward()
                optimizer.step()
            seen.append(
                {
                    "before": before,
                    "after": [parameter.detach().clone() for parameter in net.parameters()],
                    "gradient": [
                        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
                        for parameter in net.parameters()
                    ],
                }
            )
    return probe, seen


def flat(net: nn.Module, module: nn.Module, tensors: Sequence[Tensor]) -> np.ndarray:
    """Returns the entries of ``tensors``, one per parameter of ``net``, that belong to ``module``, in float64."""
    inside = {id(parameter) for parameter in module.parameters()}
    chosen = [tensor for parameter, tensor in zip(net.parameters(), tensors, strict=True) if id(parameter) in inside]
    return torch.cat([tensor.flatten().double() for tensor in chosen]).numpy()


def names(net: nn.Module, patterns: Sequence[str] | None = None) -> list[str]:
    return [layer.name for layer in find_layers(net, patterns)]


def test_the_blocks_of_a_transformer_and_of_a_resnet_are_layers_in_network_order() -> None:
    """Their outputs, the residual stream, were measured nowhere."""
    inside = ("norm1", "attention.qkv", "attention.out", "norm2", "mlp.0", "mlp.1", "mlp.2")
    blocks = [name for block in ("blocks.0", "blocks.1") for name in (block, *(f"{block}.{one}" for one in inside))]
    assert names(Transformer(depth=2, width=12, heads=2)) == ["tokens", "positions", *blocks, "norm", "head"]
    assert [name for name in names(resnet((4, 8), blocks=2)) if name.isdecimal()] == [str(one) for one in range(10)]
    assert [name for name in names(Stack(Block)) if name.count(".") == 2] == [
        "model.layers.0", "model.layers.1", "model.layers.2",
    ]  # fmt: skip
    nested = [name for name in names(Stack(Stage, 2)) if name.rpartition(".")[2].isdecimal() and "mlp" not in name]
    # the scaled and the tied block of a stage have no sibling of their class; the first is a layer for its parameter
    assert nested == [
        name
        for stage in ("model.layers.0", "model.layers.1")
        for name in (stage, f"{stage}.blocks.0", f"{stage}.blocks.1", f"{stage}.blocks.2")
    ]


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))),
        nn.ModuleList([nn.ModuleDict({"a": nn.Linear(4, 4)}) for _ in range(3)]),
        nn.ModuleList([nn.ModuleList([nn.Linear(4, 4)]) for _ in range(3)]),
        nn.Sequential(Block()),
        nn.ModuleList([Block(), TiedBlock()]),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), *(nn.Identity() for _ in range(2))),
        nn.ModuleList([nn.MultiheadAttention(4, 2) for _ in range(2)]),
    ],
    ids=lambda net: type(net).__name__,
)
def test_lists_sequentials_single_modules_and_leaves_are_no_blocks(net: nn.Module) -> None:
    for layer in find_layers(net, None):
        assert not layer.contains_layers or not layer.parameters, layer.name


def test_the_stream_and_its_gradient_are_measured_after_every_block() -> None:
    net = Stack(Block)
    states = {name: value.clone() for name, value in net.state_dict().items()}
    probe, _ = probed(net, steps=1)
    net.load_state_dict(states)
    stream = net.stream(X)
    gradients = torch.autograd.grad(net.head(stream[-1]).square().mean(), stream)
    values = probe.rows()[0].values
    for number in range(3):
        site, tensor, gradient = f"model.layers.{number}", stream[number + 1], gradients[number + 1]
        assert values["output_norm"][site] == pytest.approx(float(tensor.detach().double().norm()), rel=1e-6)
        assert values["output_gradient_norm"][site] == pytest.approx(float(gradient.double().norm()), rel=1e-6)
    assert probe.notes == ()


def test_a_block_that_returns_the_stream_in_a_tuple_has_its_own_name() -> None:
    probe, _ = probed(Stack(TupleBlock), steps=1)
    assert probe.rows()[0].values["output_norm"]["model.layers.2"] > 0


PATTERNS = [None, ["model.layers.*"], ["model.layers.*", "**.norm"], ["model.layers.**"], ["**"]]


@pytest.mark.parametrize("patterns", PATTERNS, ids=str)
@pytest.mark.parametrize("make", [Block, ScaledBlock, TiedBlock, MixedBlock, PartlyFrozenBlock, Stage])
def test_weights_updates_and_gradients_of_a_block_are_those_of_all_parameters_inside(
    make: Callable[[], nn.Module], patterns: list[str] | None
) -> None:
    if make is TiedBlock and patterns is not None and "**.norm" in patterns:
        patterns = ["model.layers.*", "**.b"]
    net = Stack(make)
    probe, seen = probed(net, layers=patterns)
    blocks = [name for name in names(net, patterns) if name.rpartition(".")[0] == "model.layers"]
    assert len(blocks) == 3
    for block in blocks:
        module = net.get_submodule(block)
        previous = None
        for row, states in zip(probe.rows(), seen, strict=True):
            before, after, gradient = (flat(net, module, states[key]) for key in ("before", "after", "gradient"))
            weight, update = np.linalg.norm(before), np.linalg.norm(after - before)
            found = {name: row.values[name][block] for name in row.values if block in row.values[name]}
            assert found["weight_norm"] == pytest.approx(weight, rel=1e-6)
            assert found["update_norm"] == pytest.approx(update, rel=1e-5)
            assert found["update_ratio"] == pytest.approx(update / weight, rel=1e-5)
            assert found["weight_gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
            if previous is None:
                assert np.isnan(found["gradient_cosine"])
            else:
                lengths = np.linalg.norm(gradient) * np.linalg.norm(previous)
                assert found["gradient_cosine"] == pytest.approx(gradient @ previous / lengths, rel=1e-5)
            previous = gradient


@pytest.mark.parametrize("make", [Block, ScaledBlock, Stage])
def test_no_weight_is_copied_a_second_time_for_a_block(make: Callable[[], nn.Module]) -> None:
    """Only what layers share, here the one bias and weight of each tied block, is read once more."""
    net = Stack(make, 2)
    reader = WeightReader(find_layers(net, None), list(load(["weight_norm"]).values()))
    read = sum(segment.size for group in reader._prepared() for segment in group.segments)
    tied = sum(module.b.bias.numel() + module.a.weight.numel() for module in net.modules() if type(module) is TiedBlock)
    assert read == sum(parameter.numel() for parameter in net.parameters()) + tied


def test_what_cannot_be_combined_is_left_out_at_blocks_with_a_note() -> None:
    def quantity(flat: bool, together: str) -> LoadedQuantity:
        return LoadedQuantity("kurtosis", lambda _: [], QuantityInput.WEIGHT, together=together, flat=flat)

    layers = find_layers(Stack(Block), None)
    for one in (quantity(True, "norm"), quantity(True, "max"), quantity(False, "mean")):
        reader = WeightReader(layers, [one])
        assert reader.notes() == {} and "model.layers.1" in reader.sites(one)
    one = quantity(True, "mean")
    reader = WeightReader(layers, [one])
    assert "kurtosis is not measured at model.layers.0 and other modules" in reader.notes()["kurtosis"]
    assert "model.layers.1" not in reader.sites(one) and "model.layers.1.mlp.0" in reader.sites(one)
    alone = WeightReader(find_layers(Stack(Block), ["model.layers.*"]), [one])
    assert alone.notes() == {} and "model.layers.1" in alone.sites(one), "read from all parameters"


def test_a_star_is_one_part_of_a_name_and_two_are_any_number() -> None:
    """A star used to cross dots, so that the blocks alone could not be chosen."""
    net = Transformer(depth=2, width=12, heads=2)
    assert names(net, ["blocks.*"]) == ["blocks.0", "blocks.1"]
    assert names(net, ["blocks.*.mlp"]) == ["blocks.0.mlp", "blocks.1.mlp"]
    assert names(net, ["**.mlp"]) == ["blocks.0.mlp", "blocks.1.mlp"]
    assert names(net, ["blocks.1.**"]) == [name for name in names(net, ["**"]) if name.startswith("blocks.1.")]
    assert names(net, ["*"]) == ["tokens", "positions", "blocks", "norm", "head"]
    assert names(net, ["**.norm*"]) == [
        "blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1", "blocks.1.norm2", "norm",
    ]  # fmt: skip
    assert names(net, ["blocks.**.mlp.[02]"]) == [f"blocks.{one}.mlp.{two}" for one in (0, 1) for two in (0, 2)]
    with pytest.raises(KymographError, match=r"no layer matches '\*\.mlp'; .* did you mean '\*\*\.mlp'\?"):
        names(net, ["*.mlp"])
    with pytest.raises(KymographError, match=r"no layer matches 'blocks\.0\.mpl'; did you mean 'blocks\.0\.mlp'\?"):
        names(net, ["blocks.0.mpl"])


class Down(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn1, self.attn2 = Inner(), Inner()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn2(self.attn1(x))


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.to_q(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = Down(), Down()

    def forward(self, x: Tensor) -> Tensor:
        return self.down2(self.down1(x))


def test_blocks_with_numbers_in_their_names_are_layers_and_numbered_parts_of_a_block_are_not() -> None:
    names = [layer.name for layer in find_layers(UNet(), None)]
    assert names == [f"down{i}{part}" for i in (1, 2) for part in ("", ".attn1.to_q", ".attn2.to_q")]


class UsesItsBias(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.bias = layer.bias

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.bias[:, None]


class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        nn.utils.parametrize.register_parametrization(self.fc, "weight", UsesItsBias(self.fc))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_a_parameter_that_a_layer_has_twice_counts_once() -> None:
    net = nn.Sequential(Parametrized(), Parametrized())
    with ky.Probe(net, level=["weight_norm"], every=1) as probe, probe.step(0):
        net(torch.randn(2, 3)).sum().backward()
    series = probe.series()["weight_norm"]
    fc = net[0].fc
    expected = torch.cat([fc.bias, fc.parametrizations.weight.original.flatten()]).detach().double().norm()
    for site in ("0", "0.fc"):
        assert series.value[0, series.sites.index(site)] == pytest.approx(float(expected), rel=1e-6)
