from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.registration import key
from kymograph.errors import KymographError
from kymograph.studies.loading import list_studies

A, B, C, D = (Side(arm, Measure("x")) for arm in "abcd")
CLAIM = Claim("a above b", "s", "own", "t", "o", A, B, "greater", 0.1)
# A claim that changes shows here, and must be registered anew.
HASHES = {
    "clipping/script/clipping lowers the variation of the effective dimension, 99:1": "5b36fe237a546d6a",
    "depth/script/residual connections keep gradients level": "3a08038bb1940871",
    "snapshot/repaired/the rule alone grows the stream under SGD": "12d990f06d43d47b",
    "calibration/repaired/the deep cosine survives matrices with permuted classes": "f38659bcd8adc893",
}
ALL_HASHES = "7113388a0c0c8bd1d1b9a02a22baea7d630d3b8dae853d4a6f0390487d9e2147"


def test_the_built_in_claims_have_the_hashes_that_they_were_registered_with() -> None:
    found = {key(claim): claim.hash for study in list_studies() for claim in study.claims()}
    assert {name: found[name][:16] for name in HASHES} == HASHES
    assert hashlib.sha256("".join(found[name] for name in sorted(found)).encode()).hexdigest() == ALL_HASHES


def test_what_is_unset_is_left_out_and_what_is_set_is_hashed() -> None:
    assert not {"equivalence_margin", "interaction"} & set(CLAIM.content)
    apart, four = replace(CLAIM, equivalence_margin=0.05), replace(CLAIM, interaction=(C, D))
    assert len({CLAIM.hash, apart.hash, four.hash, replace(four, interaction=(D, C)).hash}) == 4
    for claim in (CLAIM, apart, four, replace(CLAIM, direction="equal")):
        again = Claim.of(json.loads(json.dumps(claim.content)))
        assert again == claim and again.hash == claim.hash
    with pytest.raises(ValueError, match="unpack"):
        Claim.of({**four.content, "interaction": [1]})


def test_a_claim_knows_the_quantities_that_it_compares() -> None:
    assert CLAIM.sides == (A, B) and replace(CLAIM, right=1.0).sides == (A,)
    assert replace(CLAIM, interaction=(C, D)).sides == (A, B, C, D)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"equivalence_margin": -0.1}, "equivalence_margin must be a number of at least 0"),
        ({"scale": "log ratio", "margin": 1.1, "equivalence_margin": 0.9}, "equivalence_margin must be a ratio"),
        ({"direction": "equal", "margin": 0.0}, "nothing can be shown equal within a margin of 0"),
        ({"direction": "equal", "scale": "log ratio", "margin": 1.0}, "within a margin of 1"),
        ({"direction": "equal", "equivalence_margin": 0.1}, "takes no equivalence_margin"),
        ({"right": 1.0, "interaction": (C, D)}, "compares four quantities"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(change: dict, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        replace(CLAIM, **change)


def test_a_scale_goes_by_either_name_and_no_other() -> None:
    one, two = (Claim.compare("m", "a", "<", "b", scale=word, margin=1.1) for word in ("ratio", "log ratio"))
    assert one == two and one.scale == "log ratio"
    with pytest.raises(KymographError, match="'ratio' or 'difference', not 'log'"):
        Claim.compare("m", "a", "<", "b", scale="log", margin=1.1)  # type: ignore[arg-type]
