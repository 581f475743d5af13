"""The alternative hypotheses that a test can have."""

from __future__ import annotations

from typing import Literal

Alternative = Literal["greater", "less", "two-sided"]
ALTERNATIVES: tuple[Alternative, ...] = ("greater", "less", "two-sided")


def check_alternative(alternative: str) -> None:
    """Raises ValueError for an unknown alternative."""
    if alternative not in ALTERNATIVES:
        raise ValueError(f"a test has no alternative {alternative!r}; choose from {', '.join(ALTERNATIVES)}")
