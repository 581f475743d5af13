"""The claims of the built-in studies: their hashes, set-ups and origins."""

from __future__ import annotations

import hashlib
import json

import pytest

import kymograph
from kymograph._claims.claim_files import named_claims
from kymograph._claims.registration import key
from kymograph._errors import KymographError
from kymograph._studies.loading import list_studies

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


def test_every_finding_has_a_claim_in_the_scripts_own_set_up_and_in_the_repaired_one() -> None:
    claims = [claim for study in list_studies() for claim in study.claims()]
    assert len(claims) >= 14
    assert len({key(claim) for claim in claims}) == len(claims)
    for study in ("clipping", "depth", "snapshot", "calibration"):
        assert {claim.setup for claim in claims if claim.study == study} == {"script", "repaired"}
    families = [claim.family for claim in claims]
    assert max(families.count(family) for family in families) <= 25, "ten seeds can carry a family of twenty-five"
    arms = {study.name: {arm.name for arm in study.arms()} for study in list_studies()}
    for claim in claims:
        origins = ("script 00", "scripts 00", "arXiv:2606.21126, stated by no script")
        origins = origins if claim.setup in ("script", "repaired") else ("arXiv:",)
        assert claim.left.arm in arms[claim.study] and any(origin in claim.origin for origin in origins)


def test_every_claim_comes_back_from_its_registration() -> None:
    for study in list_studies():
        for claim in study.claims():
            again = kymograph.Claim.of(json.loads(json.dumps(claim.content)))
            assert again == claim and again.hash == claim.hash


def test_a_study_that_is_misspelt_is_suggested() -> None:
    with pytest.raises(KymographError, match="neither a file nor a study 'clippin'; did you mean 'clipping'"):
        named_claims("clippin")
