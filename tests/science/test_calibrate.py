from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.runs.stored import StoredRun
from kymograph_studies.analysis import REFERENCE
from kymograph_studies.calibration.checkpoint import (
    calibrate_checkpoint,
    interpretation,
    table,
    to_json,
    write_calibration,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """A small network trained by DFA."""
    out = tmp_path_factory.mktemp("calibrate")
    settings = {"epochs": 1, "width": 8, "depth": 2, "draws": 19}
    return kymograph.run("calibration", seeds=[42], arms=["vanilla"], out=out, quiet=True, **settings).runs[0]


def test_a_stored_network_gives_the_numbers_of_its_run(run: StoredRun) -> None:
    found = calibrate_checkpoint(run.directory, images=2048, draws=19, seed=42)
    assert [layer.name for layer in found.layers] == ["h_0", "h_1", "h_2"] and found.draws == 19
    assert found.deep.observed == pytest.approx(run.summary["deep_cosine"], rel=1e-6)
    assert found.facts["data"] == "digits" and found.facts["test_accuracy"] == run.summary["test_accuracy"]
    assert next(iter(found.deep.nulls)) == REFERENCE
    again = calibrate_checkpoint(run.directory, images=2048, draws=19, nulls=["rows"], seed=42)
    assert list(again.deep.nulls) == [REFERENCE, "rows"]
    assert again.deep.nulls["rows"].mean == found.deep.nulls["rows"].mean, "a null does not depend on the others"


def test_images_that_do_not_fit_the_network_are_named(run: StoredRun) -> None:
    with pytest.raises(KymographError, match="does not take images of synthetic"):
        calibrate_checkpoint(run.directory, images=10, draws=19, data="synthetic")


def test_the_table_and_the_file_say_the_same(run: StoredRun, tmp_path: Path) -> None:
    found = calibrate_checkpoint(run.directory, images=60, draws=19)
    path, *figures = write_calibration(found, tmp_path / "out")
    content = json.loads(path.read_text())
    assert content == json.loads(json.dumps(to_json(found))) and content["interpretation"] == interpretation(found)
    text = table(found)
    assert content["interpretation"] in text and f"{content['deep']['observed']:+.4f}" in text
    assert "60 images, 19 draws" in text and {file.suffix for file in figures} == {".png", ".pdf", ".svg", ".csv"}


def test_nothing_is_said_about_gradients_without_a_direction(run: StoredRun) -> None:
    import dataclasses

    found = calibrate_checkpoint(run.directory, images=20, draws=19)
    blind = dataclasses.replace(found, deep=dataclasses.replace(found.deep, observed=math.nan))
    assert "Nothing can be said about the deep layers" in interpretation(blind)
