"""The state from which an unfinished run resumes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from kymograph._errors import KymographError
from kymograph._runs.resume import flatten, read_resume_state, unflatten, write_resume_state

FACTS = {"run": "abc"}


def test_a_state_is_read_by_its_own_run_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert read_resume_state(path, FACTS) == (None, "")
    write_resume_state(path, {"step": 3, "weights": torch.arange(4.0)}, FACTS)
    state, why = read_resume_state(path, FACTS)
    assert state is not None and state["step"] == 3 and torch.equal(state["weights"], torch.arange(4.0)) and not why
    assert read_resume_state(path, {"run": "other"}) == (None, "it differs from its earlier start in run")


@pytest.mark.parametrize("offset", [0, 20, 60, -70, -10])
def test_one_flipped_bit_is_noticed(tmp_path: Path, offset: int) -> None:
    """A flipped bit used to change the finished run."""
    path = tmp_path / "state"
    write_resume_state(path, {"step": 3, "weights": torch.arange(40.0)}, FACTS)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    assert read_resume_state(path, FACTS) == (None, "its state on disk is damaged")


def test_a_file_that_was_cut_off_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_resume_state(path, {"step": 3}, FACTS)
    for length in (0, 5, 70):
        path.write_bytes(path.read_bytes()[:length])
        assert read_resume_state(path, FACTS)[0] is None


plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
trees = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers()), inner, max_size=4),
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor | np.ndarray):
        return type(one) is type(other) and np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


@given(trees)
def test_every_state_comes_back_as_it_was(tree: Any) -> None:
    tensors, shape = flatten(tree)
    assert same(tree, unflatten(json.loads(json.dumps(shape, allow_nan=False)), tensors))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_the_state_of_an_optimizer_comes_back(kind: Any) -> None:
    def one_step(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        net(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        return net, kind(net.parameters(), lr=0.1)

    net, optimizer = made()
    one_step(net, optimizer)
    tensors, shape = flatten({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    again, second = made()
    state = unflatten(json.loads(json.dumps(shape)), tensors)
    again.load_state_dict(state["net"])
    second.load_state_dict(state["optimizer"])
    for _ in range(3):
        for pair in ((net, optimizer), (again, second)):
            one_step(*pair)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(KymographError, match=r"state\['scheduler'\]\[0\] is a function"):
        flatten({"scheduler": [lambda step: step]})
    with pytest.raises(KymographError, match="cannot be stored"):
        flatten({(1, 2): 3})


@pytest.mark.parametrize("shape", [[], ["nothing"], {"a": 1}, [["dict"]], ["tensor", "7"]])
def test_a_damaged_shape_is_no_state(shape: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        unflatten(shape, {})
