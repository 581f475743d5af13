"""The engines of this machine give our own studies the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from tests.conftest import QUICK_CLIPPING, QUICK_DEPTH


@pytest.mark.slow
@pytest.mark.parametrize(("study", "fields"), [("clipping", QUICK_CLIPPING), ("depth", QUICK_DEPTH)])
def test_every_engine_gives_the_same_bytes(tmp_path: Path, study: str, fields: dict) -> None:
    stores = [
        kymograph.run(study, seeds=[1, 2], out=tmp_path / name, quiet=True, engine=name, workers=2, **fields)
        for name in ("serial", "processes")
    ]
    for store in stores[1:]:
        assert len(store) == len(stores[0]) > 0
        for run, other in zip(stores[0], store, strict=True):
            for name in ("arrays.safetensors", "summary.json"):
                assert (run.directory / name).read_bytes() == (other.directory / name).read_bytes()
