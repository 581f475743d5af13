from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kymograph._claims import power
from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.claim_files import named_claims
from kymograph._claims.decision import Bounds, Decided, outcome_bounds
from kymograph._claims.power import family_sizes, outcome_rates, power_tables
from kymograph._errors import KymographError
from kymograph._selftest.worlds import decide_alone
from kymograph._statistics.power import normal_samples, t_power, tost_power
from tests.cli.command import call
from tests.studies.spiky import REFERENCE, Spiky

A, B = Side("a", Measure("x")), Side("b", Measure("x"))
CLAIM = Claim("a above b", "s", "t", A, B, "greater", 0.5, origin="o")
FILE = """
[[claim]]
name = "clipping calms the loss"
study = "spiky"
arm = "easy/clip"
against = "easy/no_clip"
summary = "final_loss"
direction = "less"
scale = "log ratio"
margin = 1.1
"""


def test_rates_are_those_of_the_t_test_less_what_the_exact_test_costs() -> None:
    found = outcome_rates(Bounds(0.5, 0.0, 0.5), 1.5, 1.0, 15, 0.05, 1)
    assert found.supported == pytest.approx(t_power(1.0, 15), abs=0.03) and found.refuted == 0.0
    within = outcome_rates(Bounds(1.0, 0.0, 1.0), 0.0, 1.0, 15, 0.05, 1)
    assert within.equivalent == pytest.approx(tost_power(0.0, 1.0, 15) - within.refuted, abs=0.03)
    family = outcome_rates(Bounds(0.5, 0.0, 0.5), 1.5, 1.0, 10, 0.05, 6)
    assert 0.33 < family.supported < 0.45, "d = 1 with ten seeds: 80 % alone, 40 % in a family of six"
    assert outcome_rates(Bounds(0.5, 0.0, 0.5), 1.5, 1.0, 6, 0.05, 2).supported == 0.0


@pytest.mark.parametrize("direction", ["greater", "equal", "not less"])
def test_rates_are_those_of_the_judges_decisions(direction: str) -> None:
    claim = replace(CLAIM, direction=direction)
    table = normal_samples(8)._values
    for effect in (0.0, 0.5, 1.5):
        judged = decide_alone(claim, effect + 0.5 * table)
        found = outcome_rates(outcome_bounds(claim), effect, 0.5, 8, claim.alpha, 1)
        assert found == Decided(*(mask.mean() for mask in judged))


def test_a_scale_changes_nothing() -> None:
    one, other = (outcome_rates(Bounds(u, 0.0, u), 2 * u, u, 10, 0.05, 2) for u in (1.0, 1e-6))
    assert one == other


def test_standard_tables_say_what_seeds_cannot_reach() -> None:
    direction, equivalence = power_tables([CLAIM, replace(CLAIM, name="again")], effects=(1.0,), seeds=(6, 10))
    assert direction.columns == ("1 sd",) and "SUPPORTED" in direction.question and len(direction.claims) == 2
    assert direction.rows[0][1] == ("6 seeds cannot reach 0.05 in a family of 2",)
    assert int(equivalence.rows[0][1][0]) < 20, "one-sided, six seeds can reach it"
    assert 60 < int(direction.rows[1][1][0]) < 70
    (equal,) = power_tables([replace(CLAIM, direction="equal")], effects=(1.0, 3.0), seeds=(10,))
    assert int(equal.rows[0][1][0]) < int(equal.rows[0][1][1]) == 100
    (alone,) = power_tables([replace(CLAIM, margin=0.0)], effects=(1.0,), seeds=(10,), family=1)
    assert 75 < int(alone.rows[0][1][0]) < 83, "no margin: nothing can be equivalent"


def test_with_a_standard_deviation_the_margin_counts() -> None:
    (table,) = power_tables([CLAIM], sd=0.5, family=1, seeds=(10,))
    assert table.columns == ("+0", "+0.5", "+0.75", "+1")
    cells = [tuple(map(int, cell.split("/"))) for cell in table.rows[0][1]]
    assert cells[0][1] > 60 and cells[1][0] <= 3 and cells[3][0] > 75
    (table,) = power_tables([CLAIM], sd=0.5, family=20, seeds=(6,))
    assert table.rows[0][1] == ("6 seeds cannot reach 0.05 in a family of 20",)
    ratio = replace(CLAIM, scale="log ratio", margin=2.0, direction="less")
    (table,) = power_tables([ratio], effects=(0.25,), sd=0.3, seeds=(10,))
    assert table.columns == ("×0.25",) and table.rows[0][1][0].split("/")[0] == "100"


def test_a_claim_about_a_study_shares_the_level_with_the_studys_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "registered_study", {"spiky": Spiky()}.get)
    path = tmp_path / "claims.toml"
    path.write_text(FILE)
    claims = named_claims(str(path))[0]
    own = named_claims(REFERENCE)[0]
    findings = [claim for claim in own if claim.kind is None]
    assert 0 < len(findings) < len(own)
    assert family_sizes(claims) == {"spiky": len(findings) + 1} and family_sizes([CLAIM]) == {"s": 1}
    # Manipulation checks are corrected among themselves, as the judge does it.
    assert family_sizes(own) == {"spiky": len(findings), "spiky, manipulation checks": len(own) - len(findings)}


def test_the_verb_prints_power_by_n(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(FILE)
    assert call("power", str(path), "--n", "6", "10", "--effect", "1", "--family", "3") == 0
    out = capsys.readouterr().out
    assert "family of 3 at 0.05" in out and "clipping calms the loss (own; less, margin ×1.1)" in out
    assert "6 seeds cannot reach 0.05 in a family of 3" in out and "in percent" in out and "To ±2.2" in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("absent",), "neither a file nor a study 'absent'"),
        ((REFERENCE, "--n", "3"), "claims need at least 6 seeds, not 3"),
        ((REFERENCE, "--n", "999999999999999999"), "at most 5,000 seeds, not 999,999,999,999,999,999"),
        ((REFERENCE, "--looks", "6", "999999999999999999"), "at most 5,000 seeds"),
        ((REFERENCE, "--sd", "0"), "a standard deviation must be a number above 0"),
        ((REFERENCE, "--effect", "0"), "a number of standard deviations above 0"),
        ((REFERENCE, "--sd", "1", "--effect", "-1"), "a ratio above 0"),
        ((REFERENCE, "--family", "0"), "--family must be at least 1"),
    ],
)
def test_a_wrong_command_is_one_sentence(words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture) -> None:
    assert call("power", *words) == (1 if words == ("absent",) else 2), "a name that is unknown here is no misuse"
    assert error in capsys.readouterr().err


def test_power_needs_numbers_of_seeds_that_claims_can_have() -> None:
    with pytest.raises(KymographError, match="at least 6"):
        power_tables([CLAIM], seeds=(5,))
