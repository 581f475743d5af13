"""One workspace for all cases of a session, and the seed in the header."""

from __future__ import annotations

import pytest

from tests.fuzz.budget import EXACTLY
from tests.fuzz.cases import Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Where the cases are tried."""
    return Workspace(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True, scope="session")
def _say_the_seed() -> None:
    """Prints the seed, which pytest shows with every failure."""
    print(EXACTLY)
