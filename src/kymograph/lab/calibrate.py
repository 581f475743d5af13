"""What ``kymograph calibrate`` does: load, calibrate, tell, write, draw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from kymograph.analysis.calibration import calibrate
from kymograph.data.batches import Batches
from kymograph.errors import KymographError
from kymograph.figures.save import save_figure
from kymograph.lab.calibration_text import table, to_json
from kymograph.lab.checkpoints import load
from kymograph.runs.files import make_directory, write_atomically
from kymograph.studies.calibration.figures import draw_histograms
from kymograph.studies.image_training import load_task


def calibrate_checkpoint(
    checkpoint: str, data: str | None, images: int, draws: int, nulls: Sequence[str], seed: int, out: Path
) -> Iterator[str]:
    """Yields the table and the paths of the files written below ``out``."""
    trained = load(checkpoint)
    task = load_task(data or trained.data or "cifar10")
    x, y = Batches(task, 128).test(images)
    try:
        found = calibrate(trained.net, trained.feedback, x, y, draws, seed, nulls, trained.untrained)
    except RuntimeError as error:
        raise KymographError(
            f"{checkpoint} does not take images of {task.name}: {str(error).splitlines()[0]}"
        ) from None
    found.facts.update(checkpoint=Path(checkpoint).name, data=task.name, data_digest=task.digest(), seed=seed)
    if trained.accuracy is not None:
        found.facts["test_accuracy"] = trained.accuracy
        yield f"test accuracy {trained.accuracy:.4f}"
    yield table(found)
    make_directory(out)
    path = out / "calibration.json"
    write_atomically(path, (json.dumps(to_json(found), allow_nan=False) + "\n").encode())
    yield str(path)
    panels = [
        (layer.name, {name: null.values for name, null in layer.nulls.items()}, [layer.observed])
        for layer in (*found.layers, found.deep)
    ]
    for written in save_figure(draw_histograms(panels), out, "calibration"):
        yield str(written)
