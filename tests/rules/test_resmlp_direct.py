"""DFA from one stack of all blocks, set against DFA through autograd."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph.errors import KymographError
from kymograph.models.blocks import FlatNetwork
from kymograph.models.resmlp import MlpBlock, ResidualMLP, initialise
from kymograph.rules.direct import DirectFeedback, draw_feedback
from kymograph.rules.fast.resmlp_direct import StackedFeedback
from kymograph.training.updates import AdamW, ClipParts, Update


def network(depth: int = 3, width: int = 12, **options: object) -> FlatNetwork:
    net = ResidualMLP(30, 7, depth, width, w2_std=0.3, **options).double()  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(2)
    initialise(net, draw)
    with torch.no_grad():
        for parameter in net.parameters():  # norms of one and zero would hide what is wrong with theirs
            parameter += 0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
    return FlatNetwork(net)


def batch(size: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 1, 5, 6, generator=draw, dtype=torch.float64)
    return x, torch.randint(0, 7, (size,), generator=draw)


def matrices(depth: int, width: int) -> list[torch.Tensor]:
    return [matrix.double() for matrix in draw_feedback(torch.Generator().manual_seed(5), [width] * depth, 7)]


NETWORKS = st.fixed_dictionaries(
    {
        "depth": st.integers(1, 4),
        "width": st.integers(2, 12),
        "expansion": st.integers(1, 3),
        "skip": st.booleans(),
        "out_ln": st.booleans(),
    }
)


@settings(max_examples=40)
@given(NETWORKS, st.booleans(), st.sampled_from([0.0, 0.01, 1.0]), st.integers(1, 9))
def test_every_gradient_is_the_one_through_autograd(
    options: dict[str, int], normalise: bool, penalty: float, size: int
) -> None:
    flat = network(**options)
    feedback = matrices(options["depth"], options["width"])
    expected = DirectFeedback(feedback, normalise, penalty).backward(flat, *batch(size)).loss
    gradients = flat.gradients.clone()
    flat.gradients.fill_(3.0)  # what was there before must not matter
    found = StackedFeedback(feedback, normalise, penalty).backward(flat, *batch(size)).loss
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(flat.gradients, gradients, rtol=1e-9, atol=1e-12)


def test_a_short_last_batch_and_another_network_are_no_trouble() -> None:
    feedback = matrices(3, 12)
    rule, reference = StackedFeedback(feedback), DirectFeedback(feedback)
    one, two = network(), network(out_ln=False)
    for flat, size in ((one, 8), (one, 3), (two, 3), (one, 8)):
        reference.backward(flat, *batch(size, size))
        gradients = flat.gradients.clone()
        rule.backward(flat, *batch(size, size))
        torch.testing.assert_close(flat.gradients, gradients)


def test_training_goes_the_same_way() -> None:
    feedback = matrices(3, 12)
    ways = []
    for rule in (DirectFeedback(feedback), StackedFeedback(feedback)):
        flat = network()
        spans = [span for name, span in flat.spans.items() if name.startswith("blocks.")]
        update = Update(AdamW(flat, 1e-2, 0.01, [slice(0, flat.values.shape[1])]), [ClipParts(spans, 1.0)])
        for step in range(20):
            rule.backward(flat, *batch(8, step))
            update(flat)
        ways.append(flat.values)
    torch.testing.assert_close(ways[0], ways[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["norm.weight", "w1.weight", "w2.bias"])
def test_the_stack_is_a_view_of_every_block(name: str) -> None:
    flat = network(expansion=2)
    values, gradients = flat.stacked(name)
    for number, block in enumerate(flat.net.blocks):
        parameter = block.get_parameter(name)
        assert torch.equal(values[number], parameter)
        gradients[number] = float(number)
        assert parameter.grad is not None and parameter.grad.eq(number).all()
    assert flat.gradients.sum() == 3 * flat.net.blocks[0].get_parameter(name).numel(), "and of nothing else"


def test_a_copy_of_the_network_is_stacked_on_its_own() -> None:
    flat = network()
    twin = copy.deepcopy(flat)
    twin.values += 1.0
    assert torch.equal(twin.stacked("w1.weight")[0], flat.stacked("w1.weight")[0] + 1.0)


def test_blocks_that_differ_are_not_stacked() -> None:
    odd = ResidualMLP(30, 7, 2, 12)
    odd.blocks[1] = MlpBlock(12, 3, 0.01)
    with pytest.raises(KymographError, match="only blocks that are alike"):
        FlatNetwork(odd).stacked("w1.weight")


@pytest.mark.parametrize(("steepness", "feedback_scale"), [(1.0, 1.0), (1e4, 1.0), (1e4, 1e-30)])
def test_tiny_and_missing_errors_give_what_autograd_gives(steepness: float, feedback_scale: float) -> None:
    """In float32 at the study's own width; a steep head is sure of its answers, and they are the labels."""
    net = ResidualMLP(30, 7, 4, 256)
    initialise(net, torch.Generator().manual_seed(1))
    flat = FlatNetwork(net)
    x = batch(16)[0].float()
    with torch.no_grad():
        net.head.weight *= steepness
        y = net(x).argmax(-1)
    feedback = [feedback_scale * matrix.float() for matrix in matrices(4, 256)]
    DirectFeedback(feedback).backward(flat, x, y)
    expected = flat.gradients.clone()
    flat.gradients.fill_(3.0)
    StackedFeedback(feedback).backward(flat, x, y)
    assert flat.gradients.isfinite().all()
    assert float((flat.gradients - expected).norm()) <= 1e-5 * float(expected.norm())
