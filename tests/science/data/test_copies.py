"""What data sets declare about copies that are not the official ones."""

from __future__ import annotations

import pytest

from kymograph.registry import Part
from kymograph_studies.data import DATA_SETS, copy_remarks


def test_only_known_copies_are_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        "own": Part("own", "my_lab.own", {"copies": {"b": "the second", "a": "the first"}}),
        "odd": Part("odd", "my_lab.odd", {"copies": ["a"]}),
        "none": Part("none", "my_lab.none", {}),
    }
    monkeypatch.setattr(DATA_SETS, "parts", lambda: parts)
    assert copy_remarks(["c", "b", "a", "b"]) == ["the first", "the second"]
    assert copy_remarks(["None"]) == []
