"""Standard deviations by source of variance, from stored runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._statistics.variances import sd_interval, variance_ratio
from kymograph_studies.training.image_study import ImageSettings
from kymograph_studies.variance import ALL, ORDER, SETTING, SPLIT, ArmSpread, arm_spreads, conclusion
from tests.records import write_record

Numbers = Callable[[int], Mapping[str, Any]]
HEADLINES = {"x": "the x"}


def write(root: Path, source: str, numbers: Numbers, arm: str = "arm", n: int = 10, **config: Any) -> None:
    """Stores the runs of one source; ``numbers`` gives the summary at each seed."""
    settings = {**config, **({} if source == ALL else {SETTING: source})}
    for seed in range(n):
        write_record(root, RunSpec("own", arm, seed, settings, 1), RunResult({}, dict(numbers(seed))), {}, 0.1)


def normal(sd: float, key: str = "x", centre: float = 0.0, stream: int = 0) -> Numbers:
    return lambda seed: {key: centre + sd * float(np.random.default_rng([seed, stream]).standard_normal())}


def spreads(root: Path, headlines: Mapping[str, str] = HEADLINES, **options: Any) -> list[ArmSpread]:
    return arm_spreads(Store.open(root).finished, headlines, **options)


def test_the_sources_are_those_of_the_image_studies() -> None:
    assert get_args(get_type_hints(ImageSettings)[SETTING]) == ORDER and ImageSettings().vary == ALL


def test_every_source_has_its_deviation_interval_and_share(tmp_path: Path) -> None:
    sds = {"order": 0.1, ALL: 1.0, SPLIT: 0.2, "feedback": 0.9}
    for stream, (source, sd) in enumerate(sds.items()):
        write(tmp_path, source, normal(sd, stream=stream))
    (arm,) = spreads(tmp_path)
    (number,) = arm.numbers
    assert [one.source for one in number.sources] == [ALL, "order", "feedback", SPLIT]
    values = {
        source: [float(normal(sd, stream=stream)(seed)["x"]) for seed in range(10)]
        for stream, (source, sd) in enumerate(sds.items())
    }
    for one in number.sources:
        assert (one.low, one.high) == sd_interval(values[one.source])
        assert one.sd == pytest.approx(np.std(values[one.source], ddof=1)) and one.n == 10 and one.missing == 0
        shared = one.source in ("order", "feedback")
        assert one.share == (variance_ratio(values[one.source], values[ALL]) if shared else None)
    assert number.dominant == "feedback" and "feedback varies it most (p " in conclusion(number)


def test_without_a_clear_winner_it_cannot_be_told(tmp_path: Path) -> None:
    write(tmp_path, "order", lambda seed: {"x": float(seed)})
    write(tmp_path, "feedback", lambda seed: {"x": 1.9 * seed})
    ((number,),) = [arm.numbers for arm in spreads(tmp_path)]
    assert number.largest == "feedback" and number.dominant is None and 0.05 < number.p < 0.1
    assert conclusion(number).startswith("no source clearly dominates (feedback 5.75, order 3.03; p = 0.0")


def test_one_source_or_one_run_per_source_is_nothing_to_compare(tmp_path: Path) -> None:
    write(tmp_path, ALL, normal(1.0))
    assert spreads(tmp_path) == []
    write(tmp_path, "order", normal(1.0), n=1)
    assert spreads(tmp_path) == []
    write(tmp_path, "order", normal(1.0), n=3)
    (arm,) = spreads(tmp_path)
    assert arm.numbers[0].largest is None and conclusion(arm.numbers[0]) == "only order has an effect"


def test_runs_that_differ_in_another_setting_are_kept_apart(tmp_path: Path) -> None:
    for epochs in (5, 60):
        for source in ("order", "feedback"):
            write(tmp_path, source, normal(1.0), epochs=epochs, lr=0.1)
    write(tmp_path, "order", normal(1.0), arm="other", epochs=5)
    write(tmp_path, "feedback", normal(1.0), arm="other", epochs=60)
    found = spreads(tmp_path)
    assert sorted(arm.name for arm in found) == ["arm (epochs 5)", "arm (epochs 60)"]
    assert all(one.n == 10 for arm in found for one in arm.numbers[0].sources)


@pytest.mark.parametrize(
    ("numbers", "ratios", "log"),
    [
        (lambda seed: {"x": 1.0 + seed}, (), False),
        (lambda seed: {"x": 10.0**seed}, (), True),
        (lambda seed: {"x": 1.0 + seed}, ("x",), True),
        (lambda seed: {"x": float(seed)}, ("x",), False),
        (lambda seed: {"x": (1.0 + seed) / 3, "raw": 1.0 + seed}, ("raw",), True),
        (lambda seed: {"x": (1.0 + seed) ** 1.5, "raw": 1.0 + seed}, ("raw",), False),
        (lambda seed: {"x": 2.0, "raw": 1.0}, ("raw",), False),
    ],
    ids=["few", "decades", "claimed", "zero", "proportional to claimed", "another quantity", "constants"],
)
def test_positive_numbers_that_span_scales_or_are_compared_as_ratios_are_taken_in_logarithms(
    tmp_path: Path, numbers: Numbers, ratios: tuple[str, ...], log: bool
) -> None:
    write(tmp_path, "order", numbers)
    write(tmp_path, "feedback", numbers)
    (arm,) = spreads(tmp_path, ratios=ratios)
    assert arm.numbers[0].log is log and arm.numbers[0].title == ("ln the x" if log else "the x")
    values = np.array([numbers(seed)["x"] for seed in range(10)])
    expected = np.std(np.log(values) if log else values, ddof=1)
    assert arm.numbers[0].sources[0].sd == pytest.approx(expected, rel=1e-12)


def test_a_source_that_does_nothing_is_no_rival_and_a_ceiling_is_no_proof(tmp_path: Path) -> None:
    both: dict[str, Numbers] = {
        "order": lambda seed: {**normal(1.0, stream=1)(seed), "accuracy": 1.0},
        "initialisation": lambda seed: {**normal(9.0, stream=2)(seed), "accuracy": 1.0 - 0.01 * (seed == 0)},
        "feedback": lambda seed: {"x": 1.0, "accuracy": 1.0},
    }
    for source, numbers in both.items():
        write(tmp_path, source, numbers)
    (arm,) = spreads(tmp_path, {"x": "x", "accuracy": "accuracy"})
    x, accuracy = arm.numbers
    assert {one.source: one.idle for one in x.sources} == {"initialisation": False, "order": False, "feedback": True}
    assert x.dominant == "initialisation"
    assert accuracy.largest == "initialisation" and math.isnan(accuracy.p) and accuracy.dominant is None
    assert "values that do not vary cannot be tested" in conclusion(accuracy)


def test_p_is_corrected_over_the_numbers_of_an_arm(tmp_path: Path) -> None:
    for stream, (source, sd) in enumerate({"order": 1.0, "feedback": 3.0}.items()):
        write(tmp_path, source, lambda seed, sd=sd, stream=stream: {  # type: ignore[misc]
            **normal(sd, "x", stream=stream)(seed), **normal(1.0, "y", stream=stream + 7)(seed)})  # fmt: skip
    alone, both = (spreads(tmp_path, numbers)[0].numbers[0] for numbers in (HEADLINES, {"x": "x", "y": "y"}))
    assert both.p == pytest.approx(2 * alone.p)


def test_runs_without_a_number_are_counted_and_truth_values_have_no_deviation(tmp_path: Path) -> None:
    for source in ("order", "feedback"):
        write(tmp_path, source, lambda seed: {"x": None if seed < 2 else float(seed**2), "fine": seed > 3})
    (arm,) = spreads(tmp_path, {"x": "x", "fine": "fine", "absent": "absent"})
    assert [number.key for number in arm.numbers] == ["x"]
    assert [(one.n, one.missing) for one in arm.numbers[0].sources] == [(8, 2), (8, 2)]
