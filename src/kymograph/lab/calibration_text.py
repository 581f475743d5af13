"""A calibration as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from typing import Any

from kymograph.analysis.calibration import ABOUT, Calibration, Layer
from kymograph.runs.files import plain

ALPHA = 0.05


def table(found: Calibration) -> str:
    """Returns the table: training B against fresh B, per point and over the deep layers, with p-values and z-scores."""
    header = [
        "point",
        "training B",
        "fresh B: mean",
        "sd",
        "closed form sd",
        "z",
        "p",
        "p (Holm)",
        "next point",
        "float64",
    ]
    rows = [header]
    for layer in (*found.layers, found.deep):
        fresh = layer.nulls["fresh"]
        rows.append(
            [
                layer.name,
                f"{layer.observed:+.4f}",
                f"{fresh.mean:+.4f}",
                f"{fresh.sd:.4f}",
                f"{layer.closed_sd:.4f}",
                f"{layer.z:+.1f}",
                f"{layer.p['fresh']:.4f}",
                _number(layer.p_holm),
                _number(layer.out, "+.4f"),
                _number(layer.recheck),
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    others = [
        f"deep mean against {ABOUT[name]}: null {null.mean:+.4f} +- {null.sd:.4f}, p = {found.deep.p[name]:.4f}"
        for name, null in found.deep.nulls.items()
        if name != "fresh"
    ]
    missing = sum(layer.below_floor for layer in found.layers)
    lines += ["", *others]
    if not math.isnan(found.layers[0].untrained):
        untrained = ", ".join(f"{layer.untrained:+.3f}" for layer in found.layers)
        lines.append(f"the same matrices on the network before training: {untrained}")
    lines.append(f"positive control, the gradient with itself: {found.control:.6f} (must be 1)")
    lines.append(f"{found.images:,} images, {found.draws:,} draws; {missing} image-points below the numeric floor")
    lines += ["", interpretation(found)]
    return "\n".join(lines)


def interpretation(found: Calibration) -> str:
    """Returns what the deep mean says, in a sentence."""
    deep = found.deep
    if math.isnan(deep.observed) or deep.below_floor > found.images * (len(found.layers) - 1) / 2:
        return "The deep layers cannot be told: most gradients have no direction."
    if deep.p["fresh"] <= ALPHA:
        return (
            f"The deep layers' credit is aligned with the gradient beyond what fresh matrices give "
            f"({deep.observed:+.3f}, p = {deep.p['fresh']:.4f})."
        )
    return (
        f"The deep layers' credit is no better aligned than that of matrices which had no part in training "
        f"({deep.observed:+.3f}, p = {deep.p['fresh']:.3f})."
    )


def to_json(found: Calibration) -> dict[str, Any]:
    """Returns everything, every draw included, as JSON can hold it."""

    def layer(one: Layer) -> dict[str, Any]:
        facts = {name: value for name, value in vars(one).items() if name != "nulls"}
        nulls = {name: {"mean": n.mean, "sd": n.sd, "draws": n.values} for name, n in one.nulls.items()}
        return {**facts, "z": one.z, "nulls": nulls}

    return plain(
        {
            "schema": 1,
            "images": found.images,
            "draws": found.draws,
            "control": found.control,
            "layers": [layer(one) for one in found.layers],
            "deep": layer(found.deep),
            "interpretation": interpretation(found),
            **found.facts,
        }
    )


def _number(value: float, form: str = ".4f") -> str:
    return "" if math.isnan(value) else format(value, form)
