"""The contract of a rule, for every registered rule and every kind of network it serves.

A rule whose state changes after every update takes part too; see tests/science/rules/drifting.py.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from kymograph._errors import KymographError
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import FlatNetwork, ReplicaNetwork
from kymograph_studies.rules import RULES
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.fast import ACCELERATORS
from kymograph_studies.rules.proof import prove
from kymograph_studies.training.loop import Update, train
from kymograph_studies.training.optimizers import AdamW, Sgd, SgdPerReplica
from tests.science.rules import drifting
from tests.science.rules.networks import CASES, Case

FACTS = {**{name: part.properties for name, part in RULES.parts().items()}, "drifting": drifting.PART}
ON_REPLICAS = [name for name, facts in FACTS.items() if facts.get("replicas")]
OPTIONS = {"normalise": False, "penalty": 0.3}
EXACT = {"rtol": 1e-9, "atol": 1e-12}
PAIRS = [
    (rule, kind) for rule in FACTS for kind in CASES if rule in ON_REPLICAS or kind not in ("next token", "layer stack")
]
# Of the plain rule on parameters that are rows of one matrix; the numbers are right.
pytestmark = pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
ALWAYS = ("resmlp", "sequential", "next token")
"""The networks on which every rule is tried with every save; the others are among the slow tests."""
every_pair = pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(rule, kind, marks=() if kind in ALWAYS else pytest.mark.slow) for rule, kind in PAIRS],
)


def gradients(net: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected) > 0
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, **EXACT)


@every_pair
def test_the_fast_rule_is_its_plain_twin(name: str, kind: str) -> None:
    case = CASES[kind]()
    known = FACTS[name].get("options", ())
    for options in ({}, *({option: value} for option, value in OPTIONS.items() if option in known)):
        plain = case.rule(name, fast=False, **options).backward(case.x, case.y, accumulate=False)
        expected = gradients(case.net)
        for parameter in case.net.parameters():
            assert parameter.grad is not None
            parameter.grad.fill_(7.0)  # what was there before must not matter
        fast = case.rule(name, **options)
        for _ in range(2):  # the second pass works in memory that the first has used
            found = fast.backward(case.x, case.y, accumulate=False)
            assert_equal(gradients(case.net), expected)
            assert_equal([found.loss, found.logits, *found.at_blocks], [plain.loss, plain.logits, *plain.at_blocks])
        assert not found.loss.requires_grad and not found.logits.requires_grad


def test_every_accelerator_is_used_by_some_pair_and_each_pair_without_one_is_plain() -> None:
    used = {type(CASES[kind]().rule(name)).__module__ for name, kind in PAIRS if name in RULES.names()}
    plain = {part.module for part in RULES.parts().values()}
    assert used - plain == {part.module for part in ACCELERATORS.parts().values()}


@every_pair
def test_gradients_are_added_and_made_where_there_are_none(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    case.net.zero_grad(set_to_none=True)
    rule.backward(case.x, case.y)
    once = gradients(case.net)
    assert len(once) == len(list(case.net.parameters())), "every parameter gets a gradient, if only zeros"
    held = [parameter.grad for parameter in case.net.parameters()]
    rule.backward(case.x, case.y)
    assert_equal(gradients(case.net), [2 * gradient for gradient in once])
    assert all(parameter.grad is one for parameter, one in zip(case.net.parameters(), held, strict=True))
    rule.backward(case.x, case.y, accumulate=False)
    assert_equal(gradients(case.net), once)
    assert all(parameter.grad is one for parameter, one in zip(case.net.parameters(), held, strict=True))


@every_pair
def test_gradients_of_the_past_are_not_written_to(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    case.net.zero_grad(set_to_none=True)
    credit = rule.backward(case.x, case.y)
    past = [parameter.grad for parameter in case.net.parameters()]
    held, logits = gradients(case.net), credit.logits.clone()
    case.net.zero_grad(set_to_none=True)
    with torch.no_grad():
        for parameter in case.net.parameters():
            parameter.mul_(1.5)
    rule.backward(case.x, case.y)
    assert_equal([one for one in past if one is not None], held)
    assert torch.equal(credit.logits, logits)


@every_pair
def test_the_state_is_every_buffer_and_comes_back(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule, other = case.rule(name, seed=1), case.rule(name, seed=2)
    state = rule.state_dict()
    assert not list(rule.parameters()) and set(state) == {buffer for buffer, _ in rule.named_buffers()}
    held = {tensor.data_ptr() for tensor in state.values()}
    assert {matrix.data_ptr() for matrix in rule.matrices()} <= held, "feedback is part of it"
    model = {tensor.data_ptr() for tensor in (*case.net.parameters(), *case.net.buffers())}
    assert not model & held, "the model is not part of it"
    assert not set(rule.modules()) & set(case.net.modules())
    rule.backward(case.x, case.y, accumulate=False)
    expected = gradients(case.net)
    other.backward(case.x, case.y, accumulate=False)
    if rule.matrices():
        assert not all(torch.equal(a, b) for a, b in zip(gradients(case.net), expected, strict=True))
    other.load_state_dict(state)
    other.backward(case.x, case.y, accumulate=False)
    assert_equal(gradients(case.net), expected)


@every_pair
def test_a_rule_with_its_state_back_goes_on_as_if_it_had_not_stopped(name: str, kind: str) -> None:
    def go_on(rule: Rule, steps: int) -> None:
        for _ in range(steps):
            before = copy.deepcopy(case.net.state_dict())
            rule.backward(case.x, case.y, accumulate=False)
            optimizer.step()
            after = case.net.state_dict()
            assert not all(torch.equal(tensor, after[key]) for key, tensor in before.items()), (
                "a step moves the weights"
            )

    case = CASES[kind]()
    optimizer = torch.optim.SGD(case.net.parameters(), lr=0.05, weight_decay=0.1)
    rule = case.rule(name)
    rule.attach(optimizer)
    go_on(rule, 2)
    state, weights = copy.deepcopy(rule.state_dict()), copy.deepcopy(case.net.state_dict())
    go_on(rule, 2)
    expected, last = copy.deepcopy(case.net.state_dict()), copy.deepcopy(rule.state_dict())
    case.net.load_state_dict(weights)
    optimizer = torch.optim.SGD(case.net.parameters(), lr=0.05, weight_decay=0.1)
    other = case.rule(name, seed=9)
    other.attach(optimizer)
    other.load_state_dict(state)
    go_on(other, 2)
    assert all(torch.equal(tensor, case.net.state_dict()[key]) for key, tensor in expected.items())
    assert all(torch.equal(tensor, other.state_dict()[key]) for key, tensor in last.items())


@every_pair
def test_a_rule_changes_precision_with_its_network(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    expected = rule.backward(case.x, case.y, accumulate=False).loss
    rule.to(torch.float32)
    assert all(own.dtype == torch.float32 for own in rule.state_dict().values() if own.is_floating_point())
    assert all(parameter.dtype == torch.float64 for parameter in case.net.parameters()), "the network is not the rule's"
    if kind == "next token":
        return  # its batches hold numbers too
    case.net.float()
    single = [tensor.float() if tensor.is_floating_point() else tensor for tensor in (case.x, case.y)]
    found = rule.backward(*single, accumulate=False)
    assert found.loss.dtype == torch.float32 and all(g.dtype == torch.float32 for g in gradients(case.net))
    torch.testing.assert_close(found.loss.double(), expected, rtol=1e-4, atol=1e-5)
    case.net.double(), rule.to(torch.float64)
    rule.backward(case.x, case.y, accumulate=False)
    assert all(gradient.isfinite().all() for gradient in gradients(case.net))


def our_way(case: Case, rule: Rule, optimizer: str, steps: int) -> list[Tensor]:
    """Trains by our own loop and optimizers; returns the weights."""
    if isinstance(case.net, ReplicaNetwork):
        ours = SgdPerReplica(case.net.flat, torch.full((case.net.flat.replicas,), 0.05))
        if case.net.flat.values.dim() == 1:  # a line has no rows to multiply
            return []
    else:
        flat = FlatNetwork(case.net)
        spans = [flat.spans[part] for part in rule.trained_parts()]
        ours = Sgd(flat, 0.05, 0.1, spans) if optimizer == "sgd" else AdamW(flat, 0.01, 0.1, spans)  # type: ignore[assignment]
    for _ in train([(case.x, case.y)] * steps, rule, Update(ours)):
        pass
    return [parameter.detach().clone() for parameter in case.net.parameters()]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@every_pair
def test_ordinary_optimizers_train_as_ours_do(name: str, kind: str, optimizer: str) -> None:
    one, two = CASES[kind](), CASES[kind]()
    if isinstance(two.net, BlockNetwork):
        two = two._replace(net=copy.deepcopy(two.net))  # a network as its user has it, not laid in a row
    elif optimizer == "adamw":
        return  # replicas have Adam, which test_optimizers compares
    ours = our_way(one, one.rule(name), optimizer, 3)
    rule = two.rule(name)
    trained = rule.trained_parameters()
    theirs = (
        torch.optim.SGD(trained, lr=0.05, weight_decay=0.0 if isinstance(two.net, ReplicaNetwork) else 0.1)
        if optimizer == "sgd"
        else torch.optim.AdamW(trained, lr=0.01, weight_decay=0.1)
    )
    start = [parameter.detach().clone() for parameter in two.net.parameters()]
    rule.attach(theirs)
    for _ in range(3):
        theirs.zero_grad(set_to_none=True)
        rule.backward(two.x, two.y)
        theirs.step()
    found = [parameter.detach() for parameter in two.net.parameters()]
    assert not all(torch.equal(a, b) for a, b in zip(found, start, strict=True))
    if ours:
        for one_weight, other_weight in zip(ours, found, strict=True):
            torch.testing.assert_close(one_weight, other_weight, rtol=1e-6, atol=1e-9)


@every_pair
def test_every_line_of_the_plan_is_true(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    before = copy.deepcopy(case.net.state_dict())
    proofs = prove(rule, case.x, case.y)
    assert {proof.line.part for proof in proofs} == {part for part, own in rule.parts().items() if own} and proofs
    assert all(proof.holds for proof in proofs), [proof.line for proof in proofs if not proof.holds]
    after = case.net.state_dict()
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items()), "proving leaves no trace"


@pytest.mark.parametrize("name", [name for name in FACTS if name not in ON_REPLICAS])
def test_a_rule_that_serves_no_replicas_says_so(name: str) -> None:
    with pytest.raises(KymographError, match=r"cut into blocks, which LayerStack is not|LayerStack has replicas"):
        CASES["layer stack"]().rule(name)
