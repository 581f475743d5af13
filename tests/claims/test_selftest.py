from __future__ import annotations

import pytest

from kymograph.claims.selftest import LAWS, SIZES, worlds
from kymograph.cli.main import main


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_selftest_tells_every_law_and_size_a_family_and_the_power() -> None:
    rows = list(worlds(100))
    assert [(row.kind, row.n) for row in rows] == [
        *((f"A/A, {law}", n) for law in LAWS for n in SIZES), ("A/A, a family of 5", 10), ("d = 1, normal", 10),
        *(("one arm, skewed", n) for n in SIZES),
    ]  # fmt: skip
    assert rows == list(worlds(100)), "the same seed, the same worlds"
    assert rows[-4].supported > 0.6 > max(row.supported for row in rows[:-4])


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.slow
def test_false_support_stays_below_alpha_and_power_is_what_the_simulation_says(capsys: pytest.CaptureFixture) -> None:
    rows = list(worlds(2000))
    for row in rows[:-4]:
        assert row.supported <= 0.05, row
    assert rows[-4].supported >= 0.78
    assert rows[-2].supported > 0.05, "the limit that the table owns up to"
    with pytest.raises(SystemExit) as exit_:
        main(["selftest", "--worlds", "100"])
    assert exit_.value.code == 0 and "d = 1, normal" in capsys.readouterr().out
