"""The residual MLP's accelerators, set against autograd over many shapes and in their extremes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph_studies.models.blocks import initialise
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.fast.resmlp import FastBackprop, StackedDirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.training.loop import ClipParts, Update
from kymograph_studies.training.optimizers import AdamW
from tests.science.rules.networks import generator, shaken


def network(depth: int = 3, width: int = 12, **options: object) -> FlatNetwork:
    net = ResidualMLP(30, 1, 7, depth, width, w2_std=0.3, **options).double()  # type: ignore[arg-type]
    initialise(net, generator(2))
    return FlatNetwork(shaken(net))


def batch(size: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = generator(seed)
    x = torch.randn(size, 1, 5, 6, generator=draw, dtype=torch.float64)
    return x, torch.randint(0, 7, (size,), generator=draw)


def rule_on(flat: FlatNetwork, name: str, fast: bool, **options: object) -> Rule:
    return make(name, flat.net, generator=generator(5), example=batch(2)[0], fast=fast, **options)


NETWORKS = st.fixed_dictionaries(
    {
        "depth": st.integers(1, 4),
        "width": st.integers(2, 12),
        "expansion": st.integers(1, 3),
        "skip": st.booleans(),
        "out_ln": st.booleans(),
    }
)
RULES = st.one_of(
    st.tuples(st.sampled_from(["bp", "shallow", "frozen"]), st.just({})),
    st.tuples(
        st.just("dfa"),
        st.fixed_dictionaries({"normalise": st.booleans(), "penalty": st.sampled_from([0.0, 0.01, 1.0])}),
    ),
)


@settings(max_examples=40)
@given(NETWORKS, RULES, st.integers(1, 9))
def test_every_gradient_is_the_one_through_autograd(options: dict, rule: tuple[str, dict], size: int) -> None:
    flat, (name, settings_) = network(**options), rule
    expected = rule_on(flat, name, False, **settings_).backward(*batch(size), accumulate=False)
    gradients = flat.gradients.clone()
    flat.gradients.fill_(3.0)  # what was there before must not matter
    fast = rule_on(flat, name, True, **settings_)
    assert type(fast).__module__.startswith("kymograph_studies.rules.fast")
    found = fast.backward(*batch(size), accumulate=False)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(flat.gradients, gradients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["bp", "dfa"])
def test_training_goes_the_same_way_and_short_batches_are_no_trouble(name: str) -> None:
    ways = []
    for fast in (False, True):
        flat = network()
        rule = rule_on(flat, name, fast)
        update = Update(AdamW(flat, 1e-2, 0.01), [ClipParts(flat.block_spans, 1.0)])
        for step in range(20):
            rule.backward(*batch(3 if step in (7, 19) else 8, step), accumulate=False)
            update()
        ways.append(flat.values)
    torch.testing.assert_close(ways[0], ways[1], rtol=1e-6, atol=1e-9)


def test_the_accelerators_serve_their_network_their_loss_and_a_network_in_a_row() -> None:
    flat = network()
    assert type(rule_on(flat, "bp", True)) is FastBackprop
    assert type(rule_on(flat, "dfa", True)) is StackedDirectFeedback
    other = make("bp", flat.net, loss=torch.nn.functional.cross_entropy)
    assert not isinstance(other, FastBackprop), "another loss, for all that is known"
    scattered = ResidualMLP(30, 1, 7, 3, 12).double()
    assert type(make("dfa", scattered, generator=generator(0), example=batch(2)[0])) is DirectFeedback
    assert type(make("bp", scattered)) is FastBackprop
    assert not isinstance(make("bp", ResidualMLP(30, 1, 7, 3, 12).to("meta")), FastBackprop)


@pytest.mark.parametrize(("steepness", "feedback_scale"), [(1.0, 1.0), (1e4, 1.0), (1e4, 1e-30)])
def test_tiny_and_missing_errors_give_what_autograd_gives(steepness: float, feedback_scale: float) -> None:
    """In float32 at the study's own width; a steep head is sure of its answers, and they are the labels."""
    net = ResidualMLP(30, 1, 7, 4, 256)
    initialise(net, generator(1))
    flat = FlatNetwork(net)
    x = batch(16)[0].float()
    with torch.no_grad():
        net.head.weight *= steepness
        y = net(x).argmax(-1)
    feedback = [feedback_scale * matrix for matrix in draw_feedback(generator(5), [256] * 4, 7)]
    DirectFeedback(net, feedback).backward(x, y, accumulate=False)
    expected = flat.gradients.clone()
    flat.gradients.fill_(3.0)
    StackedDirectFeedback(net, feedback).backward(x, y, accumulate=False)
    assert flat.gradients.isfinite().all()
    assert float((flat.gradients - expected).norm()) <= 1e-5 * float(expected.norm())
