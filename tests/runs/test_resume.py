"""The state of an unfinished run on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kymograph.runs.resume import read_state, write_state

FACTS = {"run": "abc"}


def test_a_state_is_read_by_its_own_run_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert read_state(path, FACTS) == (None, "")
    write_state(path, {"step": 3, "weights": torch.arange(4.0)}, FACTS)
    state, why = read_state(path, FACTS)
    assert state is not None and state["step"] == 3 and torch.equal(state["weights"], torch.arange(4.0)) and not why
    assert read_state(path, {"run": "other"}) == (None, "its state on disk belongs to other code or another run")


@pytest.mark.parametrize("offset", [0, 20, 60, -70, -10])
def test_one_flipped_bit_is_noticed(tmp_path: Path, offset: int) -> None:
    """A flipped bit used to change the finished run."""
    path = tmp_path / "state"
    write_state(path, {"step": 3, "weights": torch.arange(40.0)}, FACTS)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    assert read_state(path, FACTS) == (None, "its state on disk is damaged")


def test_a_file_that_was_cut_off_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, {"step": 3}, FACTS)
    for length in (0, 5, 70):
        path.write_bytes(path.read_bytes()[:length])
        assert read_state(path, FACTS)[0] is None
