"""The rules on cut networks: against the script's way and autograd's limit, and proofs that they are active."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork, CutModule, FlatNetwork
from kymograph.models.resmlp import ResidualMLP, initialise
from kymograph.models.vision import ConvNet, ViTMini
from kymograph.rules.baselines import BlockBackprop, NormalisedBackprop
from kymograph.rules.direct import DirectFeedback, draw_feedback, feedback_hash, output_error, unit_rms
from kymograph.rules.plan import credit_plan

X = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 3, 9, 9, 1, 4])


def resmlp(**options: object) -> BlockNetwork:
    net = ResidualMLP(3072, 10, width=12, depth=3, w2_std=0.3, **options)  # type: ignore[arg-type]
    initialise(net, torch.Generator().manual_seed(2))
    return net


def gradients(net: BlockNetwork, rule: object) -> dict[str, Tensor]:
    FlatNetwork(net)
    flat = FlatNetwork(net)
    rule.backward(flat, X, Y)  # type: ignore[attr-defined]
    return {name: p.grad.clone() for name, p in net.named_parameters()}


def exact(net: BlockNetwork) -> dict[str, Tensor]:
    loss = nn.functional.cross_entropy(net(X), Y)
    named = dict(net.named_parameters())
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def slowly(net: BlockNetwork, feedback: list[Tensor], normalise: bool, penalty: float) -> dict[str, Tensor]:
    """DFA as the script does it: a forward pass for the error, then one more for each part with its own loss."""
    with torch.no_grad():
        points = net.stream(X)
        error = net.readout(points[-1]).softmax(-1) - nn.functional.one_hot(Y, 10)
    losses = [nn.functional.cross_entropy(net.readout(points[-1]), Y)]
    for number, block in enumerate(net.blocks):
        a = error @ feedback[number].T
        a = a / (a.square().mean(-1, keepdim=True).sqrt() + 1e-6) if normalise else a
        f = block(points[number])
        losses.append((f * net.spread(a, f)).flatten(1).sum(1).mean() + penalty * f.square().flatten(1).sum(1).mean())
    a = error @ feedback[0].T
    a = a / (a.square().mean(-1, keepdim=True).sqrt() + 1e-6) if normalise else a
    start = net.embed(X)
    losses.append((start * net.spread(a, start)).flatten(1).sum(1).mean())
    named = dict(net.named_parameters())
    return dict(zip(named, torch.autograd.grad(sum(losses), list(named.values())), strict=True))


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.01])
@pytest.mark.parametrize("kind", ["resmlp", "no skip", "no norm", "vit", "conv"])
def test_one_forward_pass_gives_what_the_script_needs_many_for(kind: str, normalise: bool, penalty: float) -> None:
    options = {"no skip": {"skip": False}, "no norm": {"out_ln": False}}.get(kind, {})
    net = {
        "vit": lambda: ViTMini(3, 32, 10, width=8, depth=3),
        "conv": lambda: ConvNet(3, 32, 10, width=6, depth=3),
    }.get(kind, lambda: resmlp(**options))()
    initialise(net, torch.Generator().manual_seed(1))  # torch's own start depends on which tests ran before
    width = net.credit_shape(net.stream(X)[1])[0]
    feedback = draw_feedback(torch.Generator().manual_seed(5), [width] * 3, 10)
    expected = slowly(net, feedback, normalise, penalty)
    calls = {name: 0 for name, _ in net.blocks.named_children()}
    for name, block in net.blocks.named_children():
        block.register_forward_hook(lambda *_, name=name: calls.__setitem__(name, calls[name] + 1))
    found = gradients(net, DirectFeedback(feedback, normalise, penalty))
    assert set(calls.values()) == {1}, "one forward pass a step"
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_with_the_true_chain_for_feedback_dfa_is_backpropagation() -> None:
    """On linear blocks, where the chain from a block's output to the logits is one matrix."""
    draw = torch.Generator().manual_seed(3)
    net = CutModule(
        nn.Sequential(nn.Flatten(), nn.Linear(3072, 7)),
        [nn.Linear(7, 7) for _ in range(3)],
        nn.Identity(),
        nn.Linear(7, 10),
    )
    initialise(net, draw)
    chain = net.head.weight  # (10, 7): what a change of the last point does to the logits
    feedback = [chain.detach().T]
    for block in reversed(list(net.blocks)[1:]):
        chain = chain @ block.weight
        feedback.insert(0, chain.detach().T)
    expected = exact(net)
    found = gradients(net, DirectFeedback(feedback, normalise=False))
    for name, gradient in expected.items():
        if not name.startswith("embed"):
            torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)
    at_embed = (chain @ net.blocks[0].weight).detach().T
    found = gradients(net, DirectFeedback([at_embed, *feedback[1:]], normalise=False))
    torch.testing.assert_close(found["embed.1.weight"], expected["embed.1.weight"], rtol=1e-5, atol=1e-6)


def test_with_random_feedback_it_is_not() -> None:
    net = resmlp()
    expected, found = (
        exact(net),
        gradients(net, DirectFeedback(draw_feedback(torch.Generator().manual_seed(5), [12] * 3, 10), normalise=False)),
    )
    for name, gradient in expected.items():
        close = torch.allclose(found[name], gradient, rtol=1e-3, atol=1e-7)
        assert close == name.startswith(("norm", "head")), f"{name}: only the read-out is exact"


def test_backprop_is_autograd_shallow_is_zero_inside_and_frozen_skips_the_blocks() -> None:
    net = resmlp()
    expected = exact(net)
    for parts, trained in (
        ("all", ("embed", "blocks", "norm", "head")),
        ("readout", ("norm", "head")),
        ("no blocks", ("embed", "norm", "head")),
    ):
        found = gradients(resmlp(), BlockBackprop(parts))
        for name, gradient in expected.items():
            if name.startswith(trained):
                torch.testing.assert_close(found[name], gradient)
            else:
                assert found[name].eq(0).all(), f"{parts}: {name} must be exactly zero"


@pytest.mark.parametrize("kind", ["resmlp", "vit"])
def test_normalised_backprop_keeps_directions_and_levels_sizes(kind: str) -> None:
    net = resmlp() if kind == "resmlp" else ViTMini(3, 32, 10, width=8, depth=3)
    flat = FlatNetwork(net)
    credit = NormalisedBackprop().backward(flat, X, Y)
    points = net.stream(X)
    loss = nn.functional.cross_entropy(net.readout(points[-1]), Y)
    true = torch.autograd.grad(loss, points)
    for signal, gradient in zip(credit.at_blocks, true[1:], strict=True):
        rms = (signal * 6).flatten(1).square().mean(1).sqrt()
        assert rms.max() <= 1.001
        cosine = nn.functional.cosine_similarity(signal.flatten(1), gradient.flatten(1), eps=1e-30)
        torch.testing.assert_close(cosine, torch.ones(6), rtol=1e-4, atol=0)
    expected = exact(net)
    for name, p in net.named_parameters():
        if name.startswith(("norm", "head")):
            torch.testing.assert_close(p.grad, expected[name])


def test_the_error_is_the_gradient_at_the_logits() -> None:
    logits = torch.randn(6, 10, requires_grad=True)
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, Y, reduction="sum"), logits)
    torch.testing.assert_close(output_error(logits, Y), gradient)
    torch.testing.assert_close(unit_rms(gradient).square().mean(-1), torch.ones(6), rtol=1e-4, atol=0)


def test_feedback_has_its_law_and_its_hash_and_is_drawn_in_order() -> None:
    one, two = (draw_feedback(torch.Generator().manual_seed(1), widths, 10) for widths in ([400, 400], [400]))
    assert torch.equal(one[0], two[0]), "a matrix does not depend on how many follow"
    assert not torch.equal(one[0], one[1])
    assert one[0].std() == pytest.approx(10**-0.5, rel=0.03)
    again = draw_feedback(torch.Generator().manual_seed(1), [400, 400], 10)
    assert feedback_hash(one) == feedback_hash(again) != feedback_hash(two)


def test_the_credit_plan_names_every_part_and_the_rules_own_settings() -> None:
    net = resmlp()
    feedback = draw_feedback(torch.Generator().manual_seed(5), [12] * 3, 10)
    parts = ["embed", "blocks.0", "blocks.1", "blocks.2", "readout"]
    kinds = {
        BlockBackprop(): ["exact"] * 5,
        NormalisedBackprop(): ["other"] * 4 + ["exact"],
        DirectFeedback(feedback): ["other"] * 4 + ["exact"],
        BlockBackprop("readout"): ["nothing"] * 4 + ["exact"],
        BlockBackprop("no blocks"): ["exact"] + ["nothing"] * 3 + ["exact"],
    }
    for rule, expected in kinds.items():
        plan = credit_plan(net, rule)
        assert [line.part for line in plan] == parts and [line.kind for line in plan] == expected
    vanilla, bare = credit_plan(net, DirectFeedback(feedback)), credit_plan(net, DirectFeedback(feedback, False, 0.01))
    assert "B_1 e" in vanilla[2].signal and "RMS" in vanilla[2].signal and "cut" in vanilla[0].signal
    assert "RMS" not in bare[1].signal and "0.01 ||f||^2" in bare[1].signal and "||f||" not in bare[0].signal
    with pytest.raises(KymographError, match="a rule of the kind object has no credit plan"):
        credit_plan(net, object())  # type: ignore[arg-type]
