"""The rule by which a setting is tuned."""

from __future__ import annotations

import pytest

from kymograph._errors import KymographError
from kymograph._runs.declaration import Arm, Declaration
from kymograph._runs.tuned import Tuned, rules_from_json, tuned_study, tuning_study
from kymograph._streams import fixed_seeds, fixed_tuning_seeds

RULE = Tuned("lr", [0.3, 0.1, 0.03], by="loss", best="lowest")


def test_a_rule_survives_json_with_its_seeds_written_out() -> None:
    again = Tuned.from_json(RULE.to_json())
    assert again.to_json() == RULE.to_json() and again.tuning_seeds == RULE.tuning_seeds == fixed_tuning_seeds(3)
    assert str(RULE) == "lr among 0.3, 0.1, 0.03 by the lowest mean loss over 3 tuning seeds"
    with pytest.raises(ValueError, match="a tuning rule cannot be read"):
        rules_from_json({"arm": {"setting": "lr"}})
    with pytest.raises(ValueError, match="must be an object"):
        rules_from_json([1])


def test_numbers_have_edges_in_any_order_and_names_have_none() -> None:
    rule = Tuned("lr", (0.1, 0.3, 0.03, 0.01), by="loss", best="lowest")
    assert [rule.edge(value) for value in rule.grid] == ["", "largest", "", "smallest"]
    names = Tuned("optimizer", ("adam", "sgd"), by="loss", best="lowest")
    assert not names.numeric and names.edge("adam") == "" and Tuned("x", (True, False), by="l", best="lowest").grid


def test_tuning_seeds_are_never_fixed_seeds() -> None:
    assert not set(fixed_tuning_seeds(200)) & set(fixed_seeds(500))
    assert fixed_tuning_seeds(5)[:3] == fixed_tuning_seeds(3) and len(set(fixed_tuning_seeds(200))) == 200
    assert Tuned("lr", (1, 2, 3), by="loss", best="lowest", seeds=[7, 8]).tuning_seeds == (7, 8)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"best": "largest"}, "the lowest or the highest loss, not 'largest'"),
        ({"grid": (0.1, 0.1, 0.3)}, "distinct values"),
        ({"grid": ()}, "distinct values"),
        ({"grid": (0.1, 0.3)}, "at least three numbers"),
        ({"seeds": 0}, "at least one seed"),
        ({"seeds": (3, 3)}, "distinct whole numbers"),
        ({"seeds": ()}, "distinct whole numbers"),
        ({"seeds": (-1,)}, "distinct whole numbers"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(facts: dict, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        Tuned(**{"setting": "lr", "grid": (0.1, 0.2, 0.3), "by": "loss", "best": "lowest", **facts})


def test_tuning_runs_are_those_of_a_study_of_their_own() -> None:
    assert tuning_study("depth") == "depth.tuning" and tuned_study("depth.tuning") == "depth"
    assert tuned_study("depth") is None and tuned_study(".tuning") is None


def test_a_declaration_keeps_the_rules_and_counts_the_setting_as_the_arms_own() -> None:
    declared = Declaration("own", arms=(Arm("a", treatment={"x": 1}), Arm("b")), tuned={"a": RULE})
    again = Declaration.from_json(declared.to_json())
    assert again.tuned["a"].to_json() == RULE.to_json()
    assert again.declared_fields == {"a": {"x", "lr"}, "b": frozenset()}
    assert "tuned" not in Declaration("own").to_json(), "declarations without it are as they were"
