"""What `verify` says of a directory; forged and damaged ones are in tests/claims/test_cheats.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._sharing.verify import verify


def test_a_negative_number_of_runs_to_compute_again_is_one_sentence(runs: Path) -> None:
    with pytest.raises(KymographError, match="must be at least 0, not -1"):
        verify(runs, rerun=-1)
