"""Choosing a value from tuning runs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from kymograph._claims.tuning import choose, missing_runs, value_index
from kymograph._errors import KymographError
from kymograph._runs.spec import RunSpec
from kymograph._runs.tuned import Tuned

RULE = Tuned("lr", (0.3, 0.1, 0.03), by="loss", best="lowest", seeds=(7, 8))


def runs(numbers: dict[float, list[float | None]], **summary: Any) -> tuple[list[RunSpec], dict[str, Any]]:
    """Returns tuning runs with these losses, by value and seed; None is a run that failed."""
    specs, ended = [], {}
    for value, losses in numbers.items():
        for seed, loss in zip(RULE.tuning_seeds, losses, strict=False):
            spec = RunSpec("own.tuning", "a", seed, {"lr": value}, 1)
            facts = {"loss": loss, **summary}
            specs.append(spec)
            ended[spec.id] = SimpleNamespace(has_results=loss is not None, summary=facts, series={})
    return specs, ended


def test_the_lowest_or_highest_mean_over_seeds_is_chosen() -> None:
    specs, ended = runs({0.3: [1.0, 9.0], 0.1: [3.0, 4.0], 0.03: [5.0, 6.0]})
    found = choose("a", RULE, specs, ended)
    assert found.value == 0.1 and found.means == (5.0, 3.5, 5.5) and found.usable
    highest = Tuned("lr", RULE.grid, by="loss", best="highest", seeds=(7, 8))
    assert choose("a", highest, specs, ended).value == 0.03


def test_of_equal_means_the_value_declared_first_is_chosen() -> None:
    assert choose("a", RULE, *runs({0.3: [2.0, 2.0], 0.1: [1.0, 1.0], 0.03: [1.0, 1.0]})).value == 0.1


@pytest.mark.parametrize("lost", [None, math.nan, math.inf, -math.inf])
def test_a_failed_or_diverged_run_disqualifies_its_value(lost: float | None) -> None:
    """The mean over the seeds that survived would reward a value for losing the others."""
    found = choose("a", RULE, *runs({0.3: [0.0, lost], 0.1: [2.0, 2.0], 0.03: [3.0, 3.0]}))
    assert found.value == 0.1 and found.means[0] is None


def test_a_run_that_says_it_is_not_finite_counts_as_diverged() -> None:
    found = choose("a", RULE, *runs({0.3: [1.0, 1.0], 0.1: [2.0, 2.0], 0.03: [3.0, 3.0]}, finite=False))
    assert not found.usable and found.value is None


def test_nothing_is_chosen_while_a_run_is_missing() -> None:
    specs, ended = runs({0.3: [1.0, 1.0], 0.1: [2.0, 2.0], 0.03: [3.0]})
    assert missing_runs(RULE, specs, ended) == 1
    with pytest.raises(KymographError, match="1 of 6 tuning runs of a are missing, so its lr cannot be chosen"):
        choose("a", RULE, specs, ended)


def test_the_objective_must_be_a_number_that_runs_have() -> None:
    specs, ended = runs({0.3: [1.0, 1.0], 0.1: [2.0, 2.0], 0.03: [3.0, 3.0]})
    with pytest.raises(KymographError, match="a run has no summary 'accuracy'"):
        choose("a", Tuned("lr", RULE.grid, by="accuracy", best="highest", seeds=(7, 8)), specs, ended)


def test_true_is_not_one() -> None:
    flags = Tuned("x", (True, False, 1), by="loss", best="lowest")
    assert [value_index(flags, {"x": value}) for value in (True, False, 1, 2)] == [0, 1, 2, None]
    assert value_index(RULE, {"lr": 0.2}) is None and value_index(Tuned("n", (1, 2, 4), "l", "lowest"), {"n": 2.0}) == 1
