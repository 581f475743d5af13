"""An accelerator does what its plain twin does, whatever has happened to the network in the meantime."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from kymograph_studies.models.flat import FlatNetwork, ReplicaNetwork
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.fast.inplace import InPlace
from tests.science.rules.networks import CASES, Case

FAST = [("bp", "resmlp"), ("shallow", "resmlp"), ("frozen", "resmlp"), ("dfa", "resmlp"), ("bp", "next token"),
        ("bp", "layer stack")]  # fmt: skip
every_fast_rule = pytest.mark.parametrize(("name", "kind"), FAST)
pytestmark = pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")


def gradients(net: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]


def counting_fills(rule: Rule) -> list[int]:
    """Counts how often the arithmetic of an accelerator is used."""
    assert isinstance(rule, InPlace)
    fills, fill = [0], rule.fill

    def counted(*batch: object) -> object:
        fills[0] += 1
        return fill(*batch)

    rule.__dict__["fill"] = counted
    return fills


def assert_as_the_twin(case: Case, rule: Rule, name: str) -> None:
    """Compares what the rule fills in with what its plain twin does."""
    rule.backward(case.x, case.y, accumulate=False)
    found = gradients(case.net)
    case.rule(name, fast=False).backward(case.x, case.y, accumulate=False)
    for one, two in zip(found, gradients(case.net), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


def _replaced(net: nn.Module) -> None:
    for parameter in net.parameters():
        parameter.data = parameter.data * 1.1


def _in_place(net: nn.Module) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.1)


def _new_gradients(net: nn.Module) -> None:
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "weights replaced": _replaced,
    "weights changed in place": _in_place,
    "gradients replaced": _new_gradients,
    "no gradients": lambda net: net.zero_grad(set_to_none=True),
    "state loaded": lambda net: net.load_state_dict({k: 1.1 * v for k, v in net.state_dict().items()}),
    "there and back": lambda net: net.float().double(),
}


@pytest.mark.parametrize("change", CHANGES)
@every_fast_rule
def test_weights_and_gradients_may_move_or_change(name: str, kind: str, change: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    rule.backward(case.x, case.y, accumulate=False)
    CHANGES[change](case.net)
    assert_as_the_twin(case, rule, name)


@every_fast_rule
def test_a_network_that_has_not_moved_is_not_looked_for_again(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    fills = counting_fills(rule)
    rule.backward(case.x, case.y, accumulate=False)
    rule.__dict__["locate"] = None  # would raise if it were called
    rule.backward(case.x, case.y, accumulate=False)
    assert fills == [2]


@every_fast_rule
def test_hooks_fire_and_frozen_parameters_stay_without_gradient(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule, seen = case.rule(name), []
    fills = counting_fills(rule)
    module = case.net if kind == "next token" else next(case.net.get_submodule("blocks").children())
    handle = module.register_forward_hook(lambda *_: seen.append(1))
    rule.backward(case.x, case.y, accumulate=False)
    assert seen == [1] and fills == [0], "the plain twin did the work"
    handle.remove()
    rule.backward(case.x, case.y, accumulate=False)
    assert fills == [1]
    parameter = list(case.net.parameters())[-1]
    handle = parameter.register_hook(lambda gradient: 0 * gradient)
    rule.backward(case.x, case.y, accumulate=False)
    assert parameter.grad is not None and not parameter.grad.any()
    handle.remove()
    parameter.requires_grad_(False)
    case.net.zero_grad(set_to_none=True)
    rule.backward(case.x, case.y)
    assert parameter.grad is None and fills == [1]


HOOKS: dict[str, Callable[[nn.Module, Callable[..., None]], RemovableHandle]] = {
    "forward": lambda module, hook: module.register_forward_hook(hook),
    "before forward": lambda module, hook: module.register_forward_pre_hook(hook),
    "backward": lambda module, hook: module.register_full_backward_hook(hook),
    "before backward": lambda module, hook: module.register_full_backward_pre_hook(hook),
    "gradient": lambda module, hook: next(module.parameters()).register_hook(hook),
    "accumulated gradient": lambda module, hook: next(module.parameters()).register_post_accumulate_grad_hook(hook),
    "any module's forward": lambda _, hook: register_module_forward_hook(hook),
    "before any module's forward": lambda _, hook: register_module_forward_pre_hook(hook),
    "any module's backward": lambda _, hook: register_module_full_backward_hook(hook),
    "before any module's backward": lambda _, hook: register_module_full_backward_pre_hook(hook),
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("hook", HOOKS)
@every_fast_rule
def test_every_kind_of_hook_fires_as_under_the_plain_twin(name: str, kind: str, hook: str) -> None:
    case = CASES[kind]()
    plain, rule, calls = case.rule(name, fast=False), case.rule(name), []
    fills = counting_fills(rule)
    rule.backward(case.x, case.y, accumulate=False)  # from here on it works where it worked before
    module = case.net if isinstance(case.net, ReplicaNetwork) else case.net.get_submodule("head")
    handle = HOOKS[hook](module, lambda *_: calls.append(1))
    try:
        for accumulate in (False, True):
            calls.clear()
            rule.backward(case.x, case.y, accumulate=accumulate)
            found = len(calls)
            calls.clear()
            plain.backward(case.x, case.y, accumulate=accumulate)
            assert found == len(calls) > 0
    finally:
        handle.remove()
    assert fills == [1], "the plain twin did the work"
    rule.backward(case.x, case.y, accumulate=False)
    assert fills == [2], "and no longer does without the hook"


@every_fast_rule
def test_a_copy_works_in_memory_of_its_own(name: str, kind: str) -> None:
    case = CASES[kind]()
    rule = case.rule(name)
    rule.backward(case.x, case.y, accumulate=False)
    before = gradients(case.net)
    for twin in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))):
        assert twin.net is not rule.net
        with torch.no_grad():
            for parameter in twin.net.parameters():
                parameter.mul_(1.1)
        assert_as_the_twin(case._replace(net=twin.net), twin, name)
        assert all(torch.equal(a, b) for a, b in zip(gradients(case.net), before, strict=True))


def test_feedback_that_was_replaced_or_changed_is_used() -> None:
    case = CASES["resmlp"]()
    rule = case.rule("dfa", seed=1)
    fills = counting_fills(rule)
    rule.backward(case.x, case.y, accumulate=False)
    rule.float().double()  # new memory
    rule.backward(case.x, case.y, accumulate=False)
    rule.feedback[0].mul_(2.0)  # type: ignore[index]
    rule.backward(case.x, case.y, accumulate=False)
    found = gradients(case.net)
    plain = case.rule("dfa", fast=False)
    plain.load_state_dict(rule.state_dict())
    plain.backward(case.x, case.y, accumulate=False)
    assert fills == [3]
    for one, two in zip(found, gradients(case.net), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


def test_blocks_that_do_not_lie_in_a_row_are_served_by_the_plain_rule() -> None:
    case = CASES["resmlp"]()
    rule = case.rule("dfa")
    fills = counting_fills(rule)
    case.net.float().double()  # scatters the parameters
    assert_as_the_twin(case, rule, "dfa")
    assert fills == [0]
    FlatNetwork(case.net)
    assert_as_the_twin(case, rule, "dfa")
    assert fills == [1]
