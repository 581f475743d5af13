"""The alternatives that a test can have, and the margins."""

from __future__ import annotations

from typing import Literal

Alternative = Literal["greater", "less", "two-sided"]
ALTERNATIVES: tuple[Alternative, ...] = ("greater", "less", "two-sided")


def check_alternative(alternative: str) -> None:
    """Raises ValueError for an alternative that no test here has."""
    if alternative not in ALTERNATIVES:
        raise ValueError(f"a test has no alternative {alternative!r}; choose from {', '.join(ALTERNATIVES)}")


def check_margin(margin: float) -> None:
    """Raises ValueError for a margin of equivalence that is no size."""
    if not margin >= 0:
        raise ValueError(f"an equivalence margin is a size and cannot be {margin}")
