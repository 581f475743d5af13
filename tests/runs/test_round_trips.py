"""Every number that enters a record leaves it bit for bit, or is refused: by every path in and every path out.

NaN is a missing value: where a format has no NaN it is null or an empty cell, and its payload is not kept there.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kymograph as ky
from kymograph._claims.judge_csv import read_csv_arm
from kymograph._errors import KymographError
from kymograph._experiments.active_run import RunSummary
from kymograph._experiments.logged_series import LoggedSeries
from kymograph._experiments.recorded_loop import flat_settings
from kymograph._runs.formats import export
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from tests.fuzz import budget
from tests.records import write_record

MOST = budget.EXAMPLES if "KYMOGRAPH_FUZZ_EXAMPLES" in os.environ else budget.FAST
few = settings(max_examples=MOST)
TORCH_DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
                torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64]  # fmt: skip
NUMPY_DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
                np.float16, np.float32, np.float64]  # fmt: skip
numpy_scalars = st.sampled_from(NUMPY_DTYPES).flatmap(lambda kind: hnp.from_dtype(np.dtype(kind)))
integers = st.integers() | st.integers(-(2**66), 2**66) | st.sampled_from([2**53, 2**53 + 1, 2**63, -(2**63), 10**400])
steps = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9) | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def torch_scalars(draw: st.DrawFn) -> torch.Tensor:
    """Any number of any type of tensor."""
    dtype = draw(st.sampled_from(TORCH_DTYPES))
    if dtype.is_floating_point:
        return torch.tensor(draw(st.floats()), dtype=torch.float64).to(dtype)
    if dtype is torch.bool:
        return torch.tensor(draw(st.booleans()))
    limits = torch.iinfo(dtype)
    return torch.tensor(draw(st.integers(limits.min, limits.max)), dtype=dtype)


numbers = st.floats() | integers | st.booleans() | numpy_scalars | torch_scalars()


def value_of(number: Any) -> Any:
    """What a number is, in Python's own types."""
    return number.item() if hasattr(number, "item") else number


def bits(number: float) -> bytes:
    """The bits of a float; every NaN has the same."""
    return struct.pack("<d", math.nan if math.isnan(number) else number)


def same(found: Any, wanted: Any) -> bool:
    """Whether two numbers are the same, to the last bit: 0.0 is not -0.0, and 2**53 is not 2**53 + 1."""
    if isinstance(found, float) and isinstance(wanted, float):
        return bits(found) == bits(wanted)
    return bool(found == wanted)


def stored(root: Path, result: RunResult) -> StoredRun:
    spec = RunSpec("exact", "only", 1, {"lr": 0.1}, 1)
    write_record(root, spec, result, {}, 0.0)
    return StoredRun(root / spec.directory)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all examples; each writes the same run."""
    return tmp_path_factory.mktemp("exact")


def from_json(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A JSON export read back: series as {name: (steps, values)}, and the summary."""
    (run,) = json.loads(path.read_text())["runs"]

    def number(value: Any) -> Any:
        return math.nan if value is None else float(value) if value in ("Infinity", "-Infinity") else value

    series = {name: (entry["step"], list(map(number, entry["value"]))) for name, entry in run["series"].items()}
    return series, {name: number(value) for name, value in run["summary"].items()}


def _literal(text: str) -> Any:
    """A number as a CSV file spells it."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return float(text or "nan")


def from_csv(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """CSV tables read back; a value that is missing cannot be told from one that is NaN, so NaN are left out."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in (rows[0] if rows else ()) if name not in ("study", "arm", "seed", "id", "step")]
    series = {}
    for name in names:
        here = [(_literal(row["step"]), _literal(row[name])) for row in rows if row[name]]
        series[name] = ([step for step, _ in here], [value for _, value in here])
    with open(path.with_name(f"{path.stem}-summary.csv"), newline="") as file:
        (row,) = csv.DictReader(file)
    return series, {name: _literal(text) for name, text in row.items() if name.startswith("number")}


def from_parquet(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Parquet tables read back."""
    from pyarrow import parquet

    series: dict[str, Any] = {}
    for row in parquet.read_table(path).to_pylist():
        at, values = series.setdefault(row["series"], ([], []))
        at.append(row["step"])
        values.append(row["value"])
    (row,) = parquet.read_table(path.with_name(f"{path.stem}-summary.parquet")).to_pylist()

    def number(value: Any) -> Any:
        return math.nan if value is None else int(value) if isinstance(value, str) else value

    return series, {name: number(value) for name, value in row.items() if name.startswith("number")}


READ: Mapping[str, Callable[[Path], tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    "json": from_json,
    "csv": from_csv,
    "parquet": from_parquet,
}


@seed(budget.SEED)
@few
@given(st.lists(st.tuples(steps, st.floats()), max_size=12))
def test_what_is_logged_leaves_by_every_path(root: Path, points: list[tuple[int | float, float]]) -> None:
    logged = LoggedSeries()
    kept: list[tuple[int | float, float]] = []
    for step, value in points:
        try:
            logged.log(step, {"x": value})
        except KymographError as error:
            assert "which no single type holds exactly" in str(error)
        else:
            kept.append((step, value))
    run = stored(root, RunResult(logged.series(), {}))
    if not kept:
        return
    found = run.series["x"]
    assert found.step.tolist() == [step for step, _ in kept]
    assert found.value.tobytes() == np.array([value for _, value in kept]).tobytes(), "even the payload of NaN"
    whole = all(isinstance(step, int) for step, _ in kept)
    small = whole and all(-(2**31) <= step < 2**31 for step, _ in kept)
    assert found.step.dtype == (np.int32 if small else np.int64 if whole else np.float64)
    repeats = any(after <= before for (before, _), (after, _) in itertools.pairwise(kept))
    assert bool(run.notes) == repeats
    store = Store.open(root)
    for format, read in READ.items():
        series, _ = read(export(store, format, root / f"out.{format}"))
        wanted = [(step, value) for step, value in kept if format != "csv" or not math.isnan(value)]
        at, values = series.get("x", ([], []))
        assert at == [step for step, _ in wanted], format
        assert all(map(same, values, [value for _, value in wanted])), format
    array = store.series("x")
    pairs = sorted(zip(array.labels["step"], map(bits, array.sel(arm="only", seed=1).values.tolist()), strict=True))
    assert pairs == sorted((step, bits(value)) for step, value in kept), "nothing is lost"
    frame = store.to_pandas()
    assert frame.step.tolist() == [step for step, _ in kept] and all(map(same, frame.value, [v for _, v in kept]))


@seed(budget.SEED)
@settings(max_examples=5 * MOST)
@given(numbers)
def test_any_number_is_logged_exactly_or_refused(number: Any) -> None:
    value = value_of(number)
    for logging in ({"x": number}, {"x": {"a": number, "b": 0.5}}, {"x": [number, 0.5]}):
        logged = LoggedSeries()
        try:
            logged.log(0, logging)
            found = logged.series()["x"].value.reshape(-1)[0].item()
        except KymographError as error:
            assert isinstance(value, int), error
            with pytest.raises((AssertionError, OverflowError)):
                assert float(value) == value
        else:
            assert (same(found, float(value)) and found == value) or math.isnan(value)


@seed(budget.SEED)
@settings(max_examples=5 * MOST)
@given(st.lists(numbers, min_size=1, max_size=4))
def test_a_device_whose_numbers_wait_gives_them_exactly_or_refuses(values: list[Any]) -> None:
    """Tensors on a device wait to be read in blocks; here, tensors on the CPU are made to wait."""
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.dtype not in TORCH_DTYPES[6:9]]
    assume(tensors)
    logged = LoggedSeries()
    logged.log(0, {"x": 0.0})
    column = logged._columns["x"]
    for step, tensor in enumerate(tensors, start=1):
        column.steps.append(step)
        column.waiting.append(tensor)
    try:
        found = logged.series()["x"].value[1:].tolist()
    except KymographError as error:
        assert "is not exactly a float64" in str(error)
        assert any(not t.dtype.is_floating_point and float(t.item()) != t.item() for t in tensors)
    else:
        assert all(same(a, float(b.item())) and (a == b.item() or a != a) for a, b in zip(found, tensors, strict=True))


@seed(budget.SEED)
@few
@given(st.lists(numbers, min_size=1, max_size=6))
def test_a_summary_leaves_by_every_path(root: Path, values: list[Any]) -> None:
    summary = RunSummary()
    wanted: dict[str, int | float] = {}
    for index, number in enumerate(values):
        try:
            summary[f"number {index}"] = number
        except KymographError as error:
            assert abs(value_of(number)) >= 10**300 and "digits" in str(error)
        else:
            wanted[f"number {index}"] = value_of(number)
    run = stored(root, RunResult({}, summary))
    for name, value in run.summary.items():
        assert (value is None and math.isnan(wanted[name])) or same(value, wanted[name]), name
        assert value is None or type(value) is type(wanted[name])
    store = Store.open(root)
    for format, read in READ.items():
        _, numbers = read(export(store, format, root / f"out.{format}"))
        assert numbers.keys() == wanted.keys()
        assert all(same(numbers[name], value) for name, value in wanted.items()), format
    row = store.summary_to_pandas().to_dict("records")[0]
    assert all(same(row[name], value) or row[name] is None for name, value in wanted.items())


@seed(budget.SEED)
@few
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]),
        st.tuples(st.integers(1, 5), st.integers(1, 3)),
    ),
    st.data(),
)
def test_a_study_s_arrays_leave_by_every_path(root: Path, values: np.ndarray, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([np.int8, np.uint32, np.int64, np.uint64, np.float32, np.float64]))
    at = data.draw(hnp.arrays(kind, len(values)))
    try:
        run = stored(root, RunResult({"x": RunSeries(at, values[:, 0])}, {}))
    except KymographError as error:
        assert "does not fit in 64 bits" in str(error) or "must be a finite float64" in str(error)
        assert (at.dtype.kind == "f" and not np.isfinite(at).all()) or int(at.max()) >= 2**63
        return
    column = values[:, 0]
    found = run.series["x"]
    assert found.value.dtype == column.dtype and found.value.tobytes() == column.tobytes()
    assert found.step.tolist() == at.tolist()
    for format, read in READ.items():
        try:
            series, _ = read(export(Store.open(root), format, root / f"out.{format}"))
        except KymographError as error:
            assert format == "parquet" and "is not exactly a float64" in str(error)
            assert any(int(float(value)) != value for value in column.tolist())
            continue
        there = [(step, value) for step, value in zip(at, column, strict=True) if format != "csv" or value == value]
        steps, out = series.get("x", ([], []))
        assert steps == [step.item() for step, _ in there]
        assert all(same(column.dtype.type(a).item(), b.item()) for a, (_, b) in zip(out, there, strict=True)), format


texts = st.text(st.characters() | st.characters(categories=["Cs"]), min_size=1, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | texts | st.complex_numbers() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@seed(budget.SEED)
@settings(max_examples=2 * MOST)
@given(st.dictionaries(texts, json_values, max_size=4))
def test_settings_are_read_back_or_refused(tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]) -> None:
    out = tmp_path_factory.mktemp("settings")
    try:
        settings = flat_settings(config)
    except KymographError as error:
        assert "\n" not in str(error)
        with pytest.raises(KymographError):
            ky.record("mine", arm="a", seed=1, config=config, out=out)
        assert not list(out.iterdir())
        return
    write_record(out, RunSpec("mine", "a", 1, settings, 1), RunResult({}, {}), {}, 0.0)
    (run,) = Store.open(out)

    def leaves(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {name: value}
        return {key: leaf for below, inner in value.items() for key, leaf in leaves(inner, f"{name}.{below}").items()}

    wanted = {key[1:]: leaf for key, leaf in leaves(config, "").items()}
    assert run.config.keys() == wanted.keys()
    assert all(repr(run.config[name]) == repr(value) for name, value in wanted.items())


@seed(budget.SEED)
@few
@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
                       st.floats() | integers, min_size=1, max_size=6))  # fmt: skip
def test_csv_files_from_elsewhere_are_read_exactly_or_refused(
    tmp_path_factory: pytest.TempPathFactory, points: dict[int | float, int | float]
) -> None:
    folder = tmp_path_factory.mktemp("csv") / "arm"
    folder.mkdir()
    lines = [f"1,{step!r},{'' if value != value else repr(value)}" for step, value in points.items()]
    (folder / "x.csv").write_text("\n".join(["seed,step,value", *lines]) + "\n")
    try:
        (run,) = read_csv_arm(folder)
    except KymographError as error:
        words = ("too large to go with", "is not exactly a float64", "digits")
        assert any(part in str(error) for part in words), error
        return
    found: Sequence[Any] = list(zip(run.series["x"].step.tolist(), run.series["x"].value.tolist(), strict=True))
    assert [step for step, _ in found] == sorted(points)
    assert all(same(value, float(points[step])) and (value == points[step] or value != value) for step, value in found)
