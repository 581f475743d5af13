"""Stacks of runs with the missing ones marked, and what an order holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kymograph
from kymograph._runs.spec import RunSpec
from kymograph._studies.loading import load_study, load_with_reference
from kymograph._sweep.orders import Order, Stack, missing_stacks, orders_for
from tests.studies.tossing import REFERENCE


def specs(count: int, kind: int = 0) -> list[RunSpec]:
    return [RunSpec("s", "a", seed, {"kind": kind}, 1) for seed in range(count)]


def planned(runs: list[RunSpec], root: Path, largest: int) -> list[Stack]:
    return missing_stacks(runs, root, lambda spec: (spec.config["kind"],), lambda spec: 1, largest)


def test_stacks_are_few_equal_and_of_one_kind(tmp_path: Path) -> None:
    stacks = planned([*specs(10), *specs(3, kind=1)], tmp_path, largest=4)
    assert sorted(len(stack.specs) for stack in stacks) == [3, 3, 3, 4]
    assert all(len({spec.config["kind"] for spec in stack.specs}) == 1 for stack in stacks)


def test_a_stack_crosses_to_a_worker_unchanged(tmp_path: Path) -> None:
    (stack,) = planned(specs(3), tmp_path, largest=8)
    assert Stack.from_json(stack.to_json()) == stack


def test_finished_runs_stay_in_their_stack_so_that_a_restart_computes_the_same_one(tmp_path: Path) -> None:
    study = load_study(REFERENCE)
    asked = study.specs([1, 2, 3], ["tails"])
    kymograph.run(REFERENCE, seeds=[2], arms=["tails"], out=tmp_path, quiet=True)
    (stack,) = missing_stacks(asked, tmp_path, lambda s: study.stack_key(s.config), lambda s: 1, 8)
    assert [spec.seed for spec in stack.specs] == [1, 2, 3]
    assert stack.missing == (True, False, True)
    assert [spec.seed for spec in stack.missing_specs] == [1, 3]


def test_an_order_names_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that starts in another directory must find the same files."""
    study, code = load_with_reference(REFERENCE)
    monkeypatch.chdir(tmp_path)
    (order,) = orders_for(code, [Stack((study.specs([1])[0],), (True,), 3)], Path("out"), (), "cpu", "data")
    assert (order.directory, order.data_dir) == (str(tmp_path / "out"), str(tmp_path / "data"))


def test_an_order_is_json_and_comes_back_as_it_was(tmp_path: Path) -> None:
    study, code = load_with_reference(REFERENCE)
    (spec, *_) = study.specs([1])
    (order,) = orders_for(code, [Stack((spec,), (True,), 3)], tmp_path, (), "cpu", tmp_path)
    back = Order.from_json(json.loads(json.dumps(order.to_json())))
    assert back.to_json() == order.to_json() and back.shipped is not None
    assert back.load_study().typed(back.stack.specs[0]) == spec, "the settings become the study's own again"
