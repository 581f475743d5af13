"""Calibrating a trained network: its credit cosines against their nulls, from a checkpoint on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kymograph.analysis.calibration import CreditCalibration, calibrate
from kymograph.analysis.nulls import NULLS, REFERENCE
from kymograph.data.batches import Batches
from kymograph.figures.save import save_figure
from kymograph.lab.calibration_text import to_json
from kymograph.lab.trained_networks import load
from kymograph.runs.files import make_directory, write_atomically
from kymograph.studies.calibration.figures import draw_histograms
from kymograph.sweep.devices import choose_device

BATCH = 128


def calibrate_checkpoint(
    checkpoint: str | Path,
    *,
    images: int,
    draws: int,
    nulls: Sequence[str] | None = None,
    seed: int = 0,
    data: str | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
) -> CreditCalibration:
    """Returns a trained network's credit cosines at every point of its residual stream, with their nulls.

    Args:
        checkpoint: a run's directory, its checkpoint, or a ``.pt`` file of the calibration script.
        images: how many test images; all of them if there are fewer.
        draws: draws from each null.
        nulls: names of nulls; default: all. `kymograph.analysis.nulls.REFERENCE` is always among them.
        seed: seed of the nulls.
        data: test images; default: those the network was trained on, cifar10 for a ``.pt`` file.
        data_dir: the directory of a data set that is not embedded; default: the variable KYMOGRAPH_DATA.
        device: the device to measure on: ``auto``, ``cpu``, ``cuda`` or ``mps``.
    """
    chosen = choose_device(device)
    trained = load(checkpoint, data_dir=data_dir, device=chosen)
    task = trained.task(data, data_dir)
    x, y = Batches(task, BATCH, chosen).test(images)
    trained.check_images(x, task, checkpoint)
    found = calibrate(
        trained.net,
        trained.feedback,
        x,
        y,
        draws,
        seed,
        tuple(dict.fromkeys((REFERENCE, *(NULLS.names() if nulls is None else nulls)))),
        trained.untrained,
    )
    found.facts.update(checkpoint=Path(checkpoint).name, data=task.name, data_digest=task.digest(), seed=seed)
    if trained.accuracy is not None:
        found.facts["test_accuracy"] = trained.accuracy
    return found


def write_calibration(found: CreditCalibration, directory: Path) -> list[Path]:
    """Writes ``calibration.json`` and a figure of the null histograms into ``directory``; returns the paths."""
    make_directory(directory)
    path = directory / "calibration.json"
    write_atomically(path, (json.dumps(to_json(found), allow_nan=False) + "\n").encode())
    panels = [
        (layer.name, {name: null.values for name, null in layer.nulls.items()}, [layer.observed])
        for layer in (*found.layers, found.deep)
    ]
    return [path, *save_figure(draw_histograms(panels), directory, "calibration")]
