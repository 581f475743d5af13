"""The settings of a study, from what a user gave."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kymograph.errors import KymographError
from kymograph.studies.settings import build_config


@dataclass(frozen=True)
class Settings:
    """Settings of a study that somebody wrote."""

    lr: float = 0.1
    clip: float | None = None
    rates: tuple[float, ...] = (0.1, 0.2)


@pytest.mark.parametrize(
    ("name", "value"), [("lr", float("nan")), ("clip", float("inf")), ("rates", [0.1, -float("inf")])]
)
def test_a_number_that_no_record_can_hold_is_one_sentence(name: str, value: object) -> None:
    """``run study.py --lr nan`` used to end in an apology."""
    with pytest.raises(KymographError, match=f"{name} must be a finite number, not .*; use None for none"):
        build_config(Settings, {name: value}, "mine")
    assert build_config(Settings, {"lr": 1, "clip": None}, "mine") == Settings(1.0)
