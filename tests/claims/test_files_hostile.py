"""Files of claims that are large or hostile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kymograph.claims.files import read_claims
from kymograph.errors import KymographError

CLAIM = """
[[claim]]
name = "claim {}"
study = "lab"
arm = "arm"
against = 1.0
summary = "final"
direction = "less"
margin = 0.0
"""


def test_many_claims_take_time_in_proportion(tmp_path: Path) -> None:
    """Names were compared each with each: 20,000 claims took a minute."""
    costs = []
    for count in (500, 4000):
        (tmp_path / "c.toml").write_text("".join(CLAIM.format(number) for number in range(count)))
        tries = []
        for _ in range(3):  # the best of them: one may meet a collection of garbage
            started = time.process_time()
            assert len(read_claims(tmp_path / "c.toml")) == count
            tries.append(time.process_time() - started)
        costs.append(min(tries) / count)
    assert costs[1] < 4 * costs[0], "eight times as many took 64 times as long"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CLAIM.format(1) + "alpha = 2024-01-01", "a date or a time"),
        (CLAIM.format(1) + f"alpha = {'9' * 5000}", "300 digits"),
        (CLAIM.format(1) + CLAIM.format(1), "two claims named"),
        ("[" * 10_000, "not TOML|nested"),
    ],
)
def test_a_hostile_file_of_claims_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(KymographError, match=why) as error:
        read_claims(tmp_path / "c.toml")
    assert "\n" not in str(error.value)
