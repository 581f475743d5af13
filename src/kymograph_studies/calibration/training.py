"""Training one `calibration` run, then comparing its credit with the nulls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kymograph import RunResult, RunSeries, RunSpec, Workplace
from kymograph_studies.analysis import REFERENCE
from kymograph_studies.analysis.calibration import CreditCalibration, calibrate
from kymograph_studies.calibration import CalibrationConfig
from kymograph_studies.training.image_study import seeds_by_source
from kymograph_studies.training.image_training import fit, make_network, result


def train(specs: Sequence[RunSpec[CalibrationConfig]], work: Workplace) -> list[RunResult]:
    """Trains and calibrates the runs one after the other; returns each one's training and calibration together."""
    results = []
    for spec in specs:
        config = spec.config
        fitted = fit(spec, config.network, work)
        trained = result(spec, fitted)
        start = seeds_by_source(spec.seed, config.vary).initialisation
        calibration = calibrate(
            fitted.net,
            fitted.feedback,
            *fitted.batches.test(config.images),
            config.draws,
            spec.seed,
            untrained=make_network(config.network, fitted.task, start).to(work.device),
        )
        numbers = {**trained.summary, **summary(calibration)}
        results.append(RunResult({**trained.series, **series(calibration)}, numbers, trained.checkpoint))
    return results


def series(calibration: CreditCalibration) -> dict[str, RunSeries]:
    """Returns per-point numbers, and every draw of every null, as series."""
    points = tuple(layer.name for layer in calibration.layers)
    here, draws = np.array([0]), np.arange(calibration.draws)

    def row(values: list[float]) -> RunSeries:
        return RunSeries(here, np.array([values]), points)

    table = {
        "cosine": row([layer.observed for layer in calibration.layers]),
        "cosine_next": row([layer.out for layer in calibration.layers]),
        "cosine_untrained": row([layer.untrained for layer in calibration.layers]),
        "closed_form_sd": row([layer.closed_sd for layer in calibration.layers]),
        "p_holm": row([layer.p_holm for layer in calibration.layers]),
        "recheck": row([layer.recheck for layer in calibration.layers]),
        "below_floor_images": row([float(layer.below_floor) for layer in calibration.layers]),
    }
    for name in calibration.deep.nulls:
        values = np.stack(
            [*(layer.nulls[name].values for layer in calibration.layers), calibration.deep.nulls[name].values], axis=1
        )
        table[f"null_{name}"] = RunSeries(draws, values, (*points, "deep"))
        table[f"p_{name}"] = row([layer.p[name] for layer in calibration.layers])
    return table


def summary(calibration: CreditCalibration) -> dict[str, float | int | str | bool | None]:
    """Returns the summary numbers of the deep mean and of the first layer."""
    deep, first = calibration.deep, calibration.layers[0]
    numbers: dict[str, float | int | str | bool | None] = {
        "deep_cosine": deep.observed,
        "deep_z": deep.z,
        "deep_closed_form_sd": deep.closed_sd,
        "deep_null_mean": deep.nulls[REFERENCE].mean,
        "deep_null_sd": deep.nulls[REFERENCE].sd,
        "deep_p": deep.p[REFERENCE],
        "deep_below_floor": deep.below_floor,
        "layer0_cosine": first.observed,
        "layer0_p": first.p[REFERENCE],
        "layer0_z": first.z,
        "control_cosine": calibration.control,
        "calibration_images": calibration.images,
        "draws": calibration.draws,
    }
    return numbers | {f"deep_p_{name}": p for name, p in deep.p.items()}
