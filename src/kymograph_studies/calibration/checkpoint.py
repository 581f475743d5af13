"""A trained network's credit cosines against their nulls: computed from a checkpoint, as a table and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._io.writing import plain
from kymograph._statistics.p_values import monte_carlo_p
from kymograph.figures import save_figure
from kymograph.formats import make_directory, write_atomically
from kymograph.studies import choose_device
from kymograph_studies.analysis import NULLS, REFERENCE
from kymograph_studies.analysis.calibration import CreditCalibration, Null, PointCalibration, calibrate
from kymograph_studies.calibration.figures import draw_histograms
from kymograph_studies.data.images import Batches
from kymograph_studies.training.trained_networks import load

ALPHA = 0.05
BATCH = 128
HEADER = (
    "point", "training B", "fresh B: mean", "sd", "closed form sd", "z", "p", "p (Holm)", "next point", "float64"
)  # fmt: skip


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
        nulls: names of nulls; default: all. `kymograph_studies.analysis.REFERENCE` is always among them.
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
    calibration = calibrate(
        trained.net,
        trained.feedback,
        x,
        y,
        draws,
        seed,
        tuple(dict.fromkeys((REFERENCE, *(NULLS.names() if nulls is None else nulls)))),
        trained.untrained,
    )
    calibration.metadata.update(checkpoint=Path(checkpoint).name, data=task.name, data_digest=task.digest(), seed=seed)
    if trained.accuracy is not None:
        calibration.metadata["test_accuracy"] = trained.accuracy
    return calibration


def table(calibration: CreditCalibration) -> str:
    """Returns the table: training B against fresh B, by point, over all and over the deep points, with p and z."""
    rows = [HEADER, *(_row(layer) for layer in (*calibration.layers, over_all_points(calibration), calibration.deep))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if "test_accuracy" in calibration.metadata:
        lines.insert(0, f"test accuracy {calibration.metadata['test_accuracy']:.4f}")
    lines.append("")
    lines += [
        f"deep mean against {NULLS.part(name).about}: null {null.mean:+.4f} +- {null.sd:.4f}, "
        f"p = {calibration.deep.p[name]:.4f}"
        for name, null in calibration.deep.nulls.items()
        if name != REFERENCE
    ]
    if not math.isnan(calibration.layers[0].untrained):
        untrained = ", ".join(f"{layer.untrained:+.3f}" for layer in calibration.layers)
        lines.append(f"the same matrices on the network before training: {untrained}")
    mean, sd = fresh_at_deep_points(calibration)
    lines.append(
        f"fresh B at single deep points, as in the script: {mean:+.4f} +- {sd:.4f} over draws and points together"
    )
    missing = sum(layer.below_floor for layer in calibration.layers)
    lines.append(f"positive control, the gradient with itself: {calibration.control:.6f} (must be 1)")
    lines.append(
        f"{calibration.images:,} images, {calibration.draws:,} draws; {missing} image-points below the numeric floor"
    )
    return "\n".join([*lines, "", interpretation(calibration)])


def over_all_points(calibration: CreditCalibration) -> PointCalibration:
    """Returns the mean over every point of the stream, h_0 included, with the same mean in every draw of the nulls.

    It has no closed form here, and so no z-score.
    """
    observed = float(np.mean([layer.observed for layer in calibration.layers]))
    nulls = {
        name: Null(np.mean([layer.nulls[name].values for layer in calibration.layers], axis=0))
        for name in calibration.deep.nulls
    }
    p = {name: monte_carlo_p(observed, null.values) for name, null in nulls.items()}
    below = sum(layer.below_floor for layer in calibration.layers)
    return PointCalibration("mean of all", observed, nulls, p, math.nan, below)


def fresh_at_deep_points(calibration: CreditCalibration) -> tuple[float, float]:
    """Returns mean and standard deviation of the cosines that fresh matrices give at single deep points.

    The script takes both over draws and points together (denominator n). That is not the spread of the deep mean, which
    varies less than a single point does: 1.6 times less with four blocks, the last two points sharing a matrix.
    """
    values = np.concatenate([layer.nulls[REFERENCE].values for layer in calibration.layers[1:]])
    return float(values.mean()), float(values.std())


def interpretation(calibration: CreditCalibration) -> str:
    """Returns a sentence on what the deep mean shows."""
    deep = calibration.deep
    if math.isnan(deep.observed) or deep.below_floor > calibration.images * (len(calibration.layers) - 1) / 2:
        return "Nothing can be said about the deep layers: most of their gradients have no direction."
    if deep.p[REFERENCE] <= ALPHA:
        return (
            f"The deep layers' credit is aligned with the gradient beyond what fresh matrices give "
            f"({deep.observed:+.3f}, p = {deep.p[REFERENCE]:.4f})."
        )
    return (
        f"The deep layers' credit is no better aligned than that of matrices which had no part in training "
        f"({deep.observed:+.3f}, p = {deep.p[REFERENCE]:.3f})."
    )


def to_json(calibration: CreditCalibration) -> dict[str, Any]:
    """Returns everything, including every draw, as plain JSON values."""
    content = {
        "schema": 1,
        "images": calibration.images,
        "draws": calibration.draws,
        "control": calibration.control,
        "layers": [_layer_to_json(layer) for layer in calibration.layers],
        "all": _layer_to_json(over_all_points(calibration)),
        "deep": _layer_to_json(calibration.deep),
        "interpretation": interpretation(calibration),
        **calibration.metadata,
    }
    return {name: plain(value) for name, value in content.items()}


def _row(layer: PointCalibration) -> tuple[str, ...]:
    reference = layer.nulls[REFERENCE]
    return (
        layer.name,
        f"{layer.observed:+.4f}",
        f"{reference.mean:+.4f}",
        f"{reference.sd:.4f}",
        _number(layer.closed_sd),
        _number(layer.z, "+.1f"),
        f"{layer.p[REFERENCE]:.4f}",
        _number(layer.p_holm),
        _number(layer.out, "+.4f"),
        _number(layer.recheck),
    )


def _layer_to_json(layer: PointCalibration) -> dict[str, Any]:
    numbers = {name: value for name, value in vars(layer).items() if name != "nulls"}
    nulls = {name: {"mean": n.mean, "sd": n.sd, "draws": n.values} for name, n in layer.nulls.items()}
    return {**numbers, "z": layer.z, "nulls": nulls}


def _number(value: float, form: str = ".4f") -> str:
    return "" if math.isnan(value) else format(value, form)


def write_calibration(calibration: CreditCalibration, directory: Path) -> list[Path]:
    """Writes ``calibration.json`` and a figure of the null histograms into ``directory``; returns the paths."""
    make_directory(directory)
    path = directory / "calibration.json"
    write_atomically(path, (json.dumps(to_json(calibration), allow_nan=False) + "\n").encode())
    panels = [
        (layer.name, {name: null.values for name, null in layer.nulls.items()}, [layer.observed])
        for layer in (*calibration.layers, calibration.deep)
    ]
    return [path, *save_figure(draw_histograms(panels), directory, "calibration")]
