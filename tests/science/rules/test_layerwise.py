"""Rules that replace each weight in the backward pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from kymograph._errors import KymographError
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from tests.science.rules.networks import generator

F = nn.functional
LAYERED = ("fa", "usf", "brsf", "frsf", "kp", "wm")
X, Y = torch.randn(6, 5, generator=generator(0)), torch.tensor([0, 2, 1, 1, 0, 2])


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3))


def rule_on(net: nn.Module, name: str = "fa") -> Rule:
    return make(name, net, loss=F.cross_entropy, generator=generator(1))


def filled(net: nn.Module) -> dict[str, Tensor]:
    return {name: own.grad.clone() for name, own in net.named_parameters() if own.grad is not None}


def exact(net: nn.Module, x: Tensor = X, y: Tensor = Y) -> dict[str, Tensor]:
    named = dict(net.named_parameters())
    return dict(zip(named, torch.autograd.grad(F.cross_entropy(net(x), y), list(named.values())), strict=True))


@pytest.mark.parametrize("name", LAYERED)
def test_the_gradients_are_those_of_the_equations(name: str) -> None:
    """delta_l = (B_{l+1}^T delta_{l+1}) * phi', dW_l = delta_l^T h_{l-1}, by hand."""
    net = mlp()
    rule = rule_on(net, name)
    feedback = rule.feedback_tensors()
    rule.backward(X, Y)
    with torch.no_grad():
        z1 = net[0](X)
        h1 = z1.relu()
        h2 = net[2](h1).tanh()
        delta3 = (net[4](h2).softmax(-1) - F.one_hot(Y, 3)) / len(Y)
        delta2 = delta3 @ feedback["4.weight"] * (1 - h2**2)
        delta1 = delta2 @ feedback["2.weight"] * (z1 > 0)
    for layer, delta, below in (("4", delta3, h2), ("2", delta2, h1), ("0", delta1, X)):
        torch.testing.assert_close(net.get_parameter(f"{layer}.weight").grad, delta.T @ below)
        torch.testing.assert_close(net.get_parameter(f"{layer}.bias").grad, delta.sum(0))


@pytest.mark.parametrize("name", LAYERED)
def test_with_random_feedback_only_the_last_layer_is_exact(name: str) -> None:
    net = mlp()
    expected = exact(net)
    rule_on(net, name).backward(X, Y)
    for parameter, gradient in filled(net).items():
        assert torch.allclose(gradient, expected[parameter], rtol=1e-3, atol=1e-7) == parameter.startswith("4."), (
            parameter
        )


def test_the_plan_says_through_whose_feedback_each_layer_learns() -> None:
    plan = {line.part: line for line in rule_on(mlp()).plan()}
    assert [line.kind for line in plan.values()] == ["other", "other", "exact"]
    assert "B of 2, 4" in plan["0"].signal and "B of 4" in plan["2"].signal and "2, 4" not in plan["2"].signal
    assert "the signs of 4 with one magnitude" in {line.part: line for line in rule_on(mlp(), "usf").plan()}["2"].signal


def test_feedback_is_of_the_size_of_its_weight_and_belongs_to_the_rule_alone() -> None:
    net = nn.Sequential(nn.Linear(50, 80), nn.Linear(80, 60))
    rule = rule_on(net)
    for name, feedback in rule.feedback_tensors().items():
        weight = net.get_parameter(name)
        assert feedback.shape == weight.shape
        assert float(feedback.std() / weight.detach().std()) == pytest.approx(1, abs=0.05)
        assert abs(float(torch.corrcoef(torch.stack([feedback.flatten(), weight.detach().flatten()]))[0, 1])) < 0.06
    assert list(rule.state_dict()) == ["feedback.0.weight", "feedback.1.weight"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    twin = copy.deepcopy(rule)
    twin.feedback["0.weight"].zero_()  # type: ignore[operator, index]
    assert rule.feedback_tensors()["0.weight"].any() and twin.net is not net
    assert rule.double().feedback_tensors()["1.weight"].dtype == torch.float64


def test_gradients_add_up_over_small_batches() -> None:
    net = mlp()
    rule = rule_on(net)
    rule.backward(X, Y)
    whole = filled(net)
    net.zero_grad()
    halves = make("fa", net, loss=lambda z, y: F.cross_entropy(z, y) / 2, generator=generator(1))
    halves.backward(X[:3], Y[:3])
    halves.backward(X[3:], Y[3:])
    for name, gradient in filled(net).items():
        torch.testing.assert_close(gradient, whole[name])


def test_under_autocast_the_products_are_low_precision_and_the_gradients_are_not() -> None:
    net = mlp()
    rule = rule_on(net)
    rule.backward(X, Y)
    full = filled(net)
    net.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        credit = rule.backward(X, Y)
    assert credit.logits.dtype == torch.bfloat16
    for name, gradient in filled(net).items():
        assert gradient.dtype == torch.float32
        assert not torch.equal(gradient, full[name])
        torch.testing.assert_close(gradient, full[name], rtol=0.1, atol=0.01)


def test_a_table_of_embeddings_has_feedback_only_where_it_is_a_weight_as_well() -> None:
    embedding = nn.Embedding(7, 4)
    untied = nn.Sequential(embedding, nn.Flatten(), nn.Linear(8, 3))
    assert list(rule_on(untied).state_dict()) == ["feedback.2.weight"]
    head = nn.Linear(4, 7, bias=False)
    head.weight = embedding.weight
    tied = nn.Sequential(embedding, nn.Linear(4, 4), nn.Tanh(), head)
    rule = make("fa", tied, loss=lambda z, y: F.cross_entropy(z.flatten(0, 1), y.flatten()), generator=generator(1))
    tokens = torch.randint(0, 7, (3, 4), generator=generator(2))
    rule.backward(tokens, tokens)
    assert set(rule.state_dict()) == {"feedback.0.weight", "feedback.1.weight"}
    true = rule.true_feedback(tokens, tokens)
    assert true is not None
    true.rule.backward(tokens, tokens, accumulate=False)
    F.cross_entropy(tied(tokens).flatten(0, 1), tokens.flatten()).backward(inputs=[embedding.weight])
    assert not torch.allclose(true.rule.net[0].weight.grad, embedding.weight.grad)  # type: ignore[index, union-attr]


def test_weights_in_channels_last_and_recomputed_layers_are_no_trouble() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.out = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 3)
            self.recompute = False

        def forward(self, x: Tensor) -> Tensor:
            h = self.one(x).relu()
            h = checkpoint(self.two, h, use_reentrant=False) if self.recompute else self.two(h)
            return self.out(h.relu().mean((2, 3)))

    net = Net().to(memory_format=torch.channels_last)
    x = torch.randn(6, 1, 8, 8, generator=generator(3))
    rule = rule_on(net)
    assert rule.feedback_tensors()["two.weight"].stride() == net.two.weight.stride()
    rule.backward(x, Y)
    expected = filled(net)
    net.recompute = True
    rule.backward(x, Y, accumulate=False)
    for name, gradient in filled(net).items():
        torch.testing.assert_close(gradient, expected[name])


class Custom(torch.autograd.Function):
    """A product that nobody sees."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


class Using(nn.Module):
    """A layer, an operation with a weight of its own, and a last layer."""

    def __init__(self, operation) -> None:
        super().__init__()
        self.first, self.weight, self.last = nn.Linear(5, 4), nn.Parameter(torch.randn(4, 4)), nn.Linear(4, 3)
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.operation(self.first(x), self.weight))


@pytest.mark.parametrize(
    ("operation", "named"),
    [
        (lambda h, w: torch.einsum("bi,oi->bo", h, w), "einsum"),
        (lambda h, w: torch.bmm(h[:, None], w.expand(len(h), 4, 4))[:, 0], "bmm"),
        (lambda h, w: F.linear(h, w * 2), "is computed or not a parameter"),
        (Custom.apply, "Custom"),
        (lambda h, w: checkpoint(F.linear, h, w, use_reentrant=True), "CheckpointFunction"),
    ],
)
def test_what_feedback_cannot_pass_through_is_named_and_nothing_is_filled(operation, named: str) -> None:
    net = Using(operation)
    with pytest.raises(KymographError, match=f"fa cannot pass through .*{named}"):
        rule_on(net).backward(X, Y)
    assert all(own.grad is None for own in net.parameters())


def test_a_recurrent_layer_is_named() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = nn.LSTM(5, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.rnn(x)[0])

    with pytest.raises(KymographError, match=r"fa cannot pass through lstm, which uses rnn.weight_ih_l0"):
        rule_on(Net()).backward(X, Y)


def test_a_compiled_network_is_refused_in_one_sentence() -> None:
    with pytest.raises(KymographError, match=r"fa cannot see into compiled code.*before torch.compile"):
        rule_on(torch.compile(mlp(), backend="eager"))  # type: ignore[arg-type]
    net = mlp()
    net[2].compile(backend="eager")
    with pytest.raises(KymographError, match="its 2 is compiled"):
        rule_on(net)


def test_a_first_layer_may_be_anything() -> None:
    net = nn.Sequential(Using(lambda h, w: h), nn.Linear(3, 3))
    net[0].operation = lambda h, w: h * w.sum()
    rule_on(net).backward(X, Y)
    assert net[0].weight.grad is not None
