"""Direct feedback alignment and its relatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kymograph._errors import KymographError
from kymograph_studies.models import draw_model
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.rules.proof import prove
from tests.science.rules.networks import CASES, blocks_of, generator

X = torch.randn(6, 1, 8, 8, generator=generator(0))
Y = torch.tensor([0, 3, 9, 9, 1, 4])
KINDS = {
    "resmlp": ("resmlp", {"w2_std": 0.3}),
    "no skip": ("resmlp", {"w2_std": 0.3, "skip": False}),
    "no norm": ("resmlp", {"w2_std": 0.3, "out_ln": False}),
    "vit": ("vit", {}),
    "conv": ("conv", {}),
}


def network(kind: str = "resmlp") -> BlockNetwork:
    model, settings = KINDS[kind]
    return draw_model(model, 1, 8, 10, generator(1), depth=3, width=12, **settings)


def gradients(rule: Rule) -> dict[str, Tensor]:
    rule.backward(X, Y, accumulate=False)
    return {name: own.grad.clone() for name, own in rule.net.named_parameters() if own.grad is not None}


def exact(net: BlockNetwork) -> dict[str, Tensor]:
    named = dict(net.named_parameters())
    loss = nn.functional.cross_entropy(net(X), Y)
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


def slowly(net: BlockNetwork, feedback: list[Tensor], normalise: bool, penalty: float) -> dict[str, Tensor]:
    """DFA as the script does it: a forward pass for the error, then one more for each part with its own loss."""
    with torch.no_grad():
        points = net.stream(X)
        error = net.readout(points[-1]).softmax(-1) - nn.functional.one_hot(Y, 10)

    def credit(block: int) -> Tensor:
        a = error @ feedback[block].T
        return a / (a.square().mean(-1, keepdim=True).sqrt() + 1e-6) if normalise else a

    losses = [nn.functional.cross_entropy(net.readout(points[-1]), Y)]
    for number, block in enumerate(net.blocks):
        f = block(points[number])
        local = (f * net.spread(credit(number), f)).flatten(1).sum(1).mean()
        losses.append(local + penalty * f.square().flatten(1).sum(1).mean())
    start = net.embed(X)
    losses.append((start * net.spread(credit(0), start)).flatten(1).sum(1).mean())
    named = dict(net.named_parameters())
    return dict(zip(named, torch.autograd.grad(sum(losses), list(named.values())), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_one_forward_pass_gives_what_the_script_needs_many_for(kind: str, normalise: bool, penalty: float) -> None:
    net = network(kind)
    feedback = draw_feedback(generator(5), [12] * 3, 10)
    expected = slowly(net, feedback, normalise, penalty)
    calls = {name: 0 for name, _ in net.blocks.named_children()}
    for name, block in net.blocks.named_children():
        block.register_forward_hook(lambda *_, name=name: calls.__setitem__(name, calls[name] + 1))
    found = gradients(DirectFeedback(net, feedback, normalise=normalise, penalty=penalty))
    assert set(calls.values()) == {1}, "one forward pass a step"
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_with_the_true_chain_for_feedback_dfa_is_backpropagation() -> None:
    """On linear blocks, where the chain from a block's output to the logits is one matrix."""
    embed = nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
    net = BlockNetwork(embed, [nn.Linear(7, 7) for _ in range(3)], nn.Identity(), nn.Linear(7, 10), skip=False)
    initialise(net, generator(3))
    chain = net.head.weight  # (10, 7): what a change of the last point does to the logits
    feedback = [chain.detach().T]
    for block in reversed(list(net.blocks)[1:]):
        chain = chain @ block.weight
        feedback.insert(0, chain.detach().T)
    at_embed = (chain @ net.blocks[0].weight).detach().T
    expected = exact(net)
    shared = gradients(DirectFeedback(net, feedback, normalise=False))
    own = gradients(DirectFeedback(net, feedback, normalise=False, embed_feedback=at_embed))
    for name, gradient in expected.items():
        torch.testing.assert_close(own[name], gradient, rtol=1e-5, atol=1e-6)
        if name.startswith("embed"):
            assert not torch.allclose(shared[name], gradient, rtol=1e-2), "the matrix of block 0 is not its chain"


def test_with_random_feedback_it_is_not() -> None:
    net = network()
    expected = exact(net)
    found = gradients(DirectFeedback(net, draw_feedback(generator(5), [12] * 3, 10), normalise=False))
    for name, gradient in expected.items():
        close = torch.allclose(found[name], gradient, rtol=1e-3, atol=1e-7)
        assert close == name.startswith(("norm", "head")), f"{name}: only the read-out is exact"


def test_credit_is_normalised_and_its_direction_is_not() -> None:
    net = network()
    rule = DirectFeedback(net, draw_feedback(generator(5), [12] * 3, 10), normalise=True)
    error = torch.randn(6, 10, generator=generator(1)) * torch.tensor([1.0, 1e-3, 1e3, 1.0, 1.0, 1.0])[:, None]
    for block in range(3):
        credit, direction = rule.credit(error, block), rule.direction(error, block)
        torch.testing.assert_close(direction, error @ rule.matrices()[block].T)
        torch.testing.assert_close(credit.square().mean(-1), torch.ones(6), rtol=1e-2, atol=0)
        torch.testing.assert_close(credit[0] * direction[0].norm(), direction[0] * credit[0].norm())


def test_the_plan_names_every_part_and_the_rules_own_settings() -> None:
    net = network()
    feedback = draw_feedback(generator(5), [12] * 3, 10)
    vanilla = DirectFeedback(net, feedback, normalise=True).plan()
    bare = DirectFeedback(net, feedback, normalise=False, penalty=0.01).plan()
    assert [line.kind for line in vanilla] == ["other"] * 4 + ["exact"]
    assert "B_1 e" in vanilla[2].signal and "RMS" in vanilla[2].signal and "cut" in vanilla[0].signal
    assert "RMS" not in bare[1].signal and "0.01 ||f||^2" in bare[1].signal and "||f||" not in bare[0].signal
    own = DirectFeedback(net, feedback, embed_feedback=feedback[1]).plan()
    assert "its own matrix" in own[0].signal and own[0].local is not None and own[0].local.matrix is feedback[1]


def test_a_frozen_embed_or_head_is_left_alone_and_the_rest_learns() -> None:
    case = CASES["vit"]()
    net = blocks_of(case.net)
    net.zero_grad(set_to_none=True)
    for part in (net.embed, net.head, net.norm):
        part.requires_grad_(False)
    case.rule("dfa").backward(case.x, case.y)
    for name, parameter in net.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) == name.startswith("blocks."), name


def test_another_loss_is_descended() -> None:
    """Under the squared error the output error is 2 (z - y) / classes, which the same rule hands out."""
    case = CASES["sequential"]()
    y = torch.randn(6, 5, generator=generator(2), dtype=torch.float64)
    rule = case._replace(y=y, loss=nn.functional.mse_loss).rule("dfa", normalise=False)
    credit = rule.backward(case.x, y)
    error = 2 * (credit.logits - y) / 5
    assert credit.loss.shape == (1,)
    torch.testing.assert_close(credit.at_blocks[1] * 6, error @ rule.matrices()[1].T)


def test_the_number_of_matrices_is_checked() -> None:
    with pytest.raises(KymographError, match="3 blocks need as many feedback matrices, not 2"):
        DirectFeedback(network(), draw_feedback(generator(5), [12] * 2, 10))


F = nn.functional
SAMPLES, LABELS = torch.randn(6, 5, generator=generator(0)), torch.tensor([0, 2, 1, 1, 0, 2])


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3))


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("dfa", lambda error: error),
        ("sdfa", lambda error: error.sign()),
        ("drtp", lambda error: F.one_hot(LABELS, 3).float()),
        ("dkp", lambda error: error),
    ],
)
def test_the_gradients_are_those_of_the_equations(name: str, sent) -> None:
    """delta_l = (B_l s) * phi', with s the error, its sign or the target; the last layer is exact."""
    net = mlp()
    rule = make(name, net, loss=F.cross_entropy, generator=generator(1))
    rule.backward(SAMPLES, LABELS)
    with torch.no_grad():
        z1 = net[0](SAMPLES)
        h2 = net[2](z1.relu()).tanh()
        error = net[4](h2).softmax(-1) - F.one_hot(LABELS, 3)
        embed, block = rule.state_dict()["embed_feedback"], rule.matrices()[0]
        delta1 = sent(error) @ embed.T * (z1 > 0) / len(LABELS)
        delta2 = sent(error) @ block.T * (1 - h2**2) / len(LABELS)
    torch.testing.assert_close(net[0].weight.grad, delta1.T @ SAMPLES)
    torch.testing.assert_close(net[2].weight.grad, delta2.T @ z1.relu())
    torch.testing.assert_close(net[4].weight.grad, error.T @ h2 / len(LABELS))
    torch.testing.assert_close(rule.direction(error, 0), sent(error) @ block.T)


def test_a_penalty_is_a_switch_of_dfa() -> None:
    one, two = mlp(), mlp()
    two.load_state_dict(one.state_dict())
    make("penalised-dfa", one, generator=generator(1)).backward(SAMPLES, LABELS)
    make("dfa", two, generator=generator(1), normalise=True, penalty=0.01).backward(SAMPLES, LABELS)
    assert torch.equal(one[2].weight.grad, two[2].weight.grad)


def per_token(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, 1), y.flatten())


@pytest.mark.parametrize("name", ["dfa", "sdfa", "drtp", "dkp", "random-credit"])
def test_every_position_hands_on_its_own_error(name: str) -> None:
    net = nn.Sequential(nn.Embedding(9, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 9))
    tokens = torch.randint(0, 9, (4, 5), generator=generator(3))
    rule = make(name, net, loss=per_token, generator=generator(1))
    credit = rule.backward(tokens, tokens)
    assert credit.at_blocks[0].shape == (4, 5, 6)
    proofs = prove(rule, tokens, tokens)
    assert all(proof.as_planned for proof in proofs)
    if name == "dfa":
        error = (credit.logits.softmax(-1) - F.one_hot(tokens, 9)) / tokens.numel()
        torch.testing.assert_close(credit.at_blocks[0], error @ rule.matrices()[0].T)


def test_targets_that_are_no_targets_are_refused() -> None:
    rule = make("drtp", mlp(), loss=lambda z, y: (z.sum(1) - y).square().mean(), generator=generator(1))
    with pytest.raises(KymographError, match="targets must be class indices of shape"):
        rule.backward(SAMPLES, torch.zeros(6))
