"""Every rule through every kind of layer: each line of its plan, and the identities that it declares."""

from __future__ import annotations

import pytest

from kymograph_studies.rules import RULES
from kymograph_studies.rules.proof import identities, prove
from tests.science.rules.layer_kinds import KINDS

ALWAYS = ("fa", "kp", "dfa")
"""One rule of each way to bring the signal back: drawn, learned, direct."""
WITH_TRUE_FEEDBACK = ("fa", "usf", "brsf", "frsf", "kp", "wm")


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch's, of its own way
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.slow) for name in RULES.names()]
)
def test_a_rule_is_what_it_says_through_this_kind_of_layer(name: str, kind: str) -> None:
    case = KINDS[kind]()
    rule = case.rule(name)
    proofs = prove(rule, case.x, case.y)
    assert all(proof.holds for proof in proofs), [proof.line for proof in proofs if not proof.holds]
    kinds = [proof.line.kind for proof in proofs]
    assert kinds.count("other") >= 2 or name in ("bp", "shallow", "frozen"), "random feedback differs"
    found = list(identities(rule, case.x, case.y))
    on_vectors = case.x.dim() == 2 and case.x.is_floating_point()
    assert len(found) == 1 + (name in WITH_TRUE_FEEDBACK or (name in ("dfa", "dkp") and on_vectors))
    assert all(one.holds for one in found), [one for one in found if not one.holds]
