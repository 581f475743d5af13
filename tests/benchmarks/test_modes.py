"""A probe measures the same in every mode of training, or says why not; and the comparison finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kymograph as ky
from benchmarks import modes
from kymograph._probes.points import BackwardPasses
from kymograph._probes.quantities import QuantityInput, load

SITES = ("a", "b")
FAST = ["bf16", "fp16", "scaler", "scaler-fused", "micro-batches", "checkpoint", "reentrant", "Adam-fused"]
NETWORK = [name for name, one in load(modes.quantities()).items() if one.input is QuantityInput.NETWORK]


def series(*values: float) -> ky.RunSeries:
    return ky.RunSeries(np.array([0]), np.array([values]), SITES)


def faults(cells: dict[str, dict[str, modes.Cell]]) -> dict[tuple[str, str], str]:
    return {(key, name): cell.fault for key, column in cells.items() for name, cell in column.items() if cell.fault}


def test_every_quantity_of_a_layer_is_equal_to_eager_training_or_nan_with_a_note() -> None:
    names = [name for name in modes.quantities() if name not in NETWORK]
    cells = modes.matrix(FAST, names)
    assert faults(cells) == {}
    assert {name for column in cells.values() for name, cell in column.items() if cell.note} == {"effective_rank"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # as torch imports inductor
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # as it compiles a module with hooks
def test_the_whole_matrix_is_without_fault_and_printed_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    assert modes.bench_modes() == 0
    printed = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs/probes.md").read_text()
    assert printed.strip() in page


def test_the_network_has_values_of_every_quantity_that_could_differ() -> None:
    """A fraction that is 0 everywhere would be equal in any mode."""
    eager = modes.train(
        modes.MODES["bf16"].eager, ["dead_fraction", "saturated_fraction", "attention_entropy"]
    ).series()
    assert all((one.value > 0).any() for one in eager.values())
    whole, parts = (
        modes.train(mode, ["live_units"]).series()["live_units"].value
        for mode in (modes.MODES["micro-batches"].eager, modes.MODES["micro-batches"])
    )
    np.testing.assert_array_equal(whole, parts)


def test_gradients_that_keep_their_scale_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackwardPasses, "unscaled", lambda self, gradient: gradient)
    names = ["output_norm", "output_gradient_norm", "raw_weight_gradient_norm", "weight_gradient_norm"]
    found = faults(modes.matrix(["fp16", "scaler-fused"], names))
    assert set(found) == {(key, name) for key in ("fp16", "scaler-fused") for name in names[1:3]}


def test_gradients_that_a_fused_optimizer_unscales_itself_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kymograph._probes.points._fused_scale", lambda optimizer: None)
    assert set(faults(modes.matrix(["scaler-fused"], ["weight_gradient_norm", "update_norm"]))) == {
        ("scaler-fused", "weight_gradient_norm")
    }


@pytest.mark.parametrize(
    ("measured", "notes", "fault"),
    [
        (series(1.0, 2.0), (), ""),
        (series(1.0, 2.00001), (), ""),
        (series(1.0, 2.0001), (), "it differs by 5.0e-05, and 1.0e-05 is allowed"),
        (series(1.0, 2.0001), ("output_norm is not measured: no reason",), "it differs by 5.0e-05"),
        (series(1.0, np.nan), (), "it is NaN, and no note says why"),
        (series(1.0, np.nan), ("output_norm_2 is not measured: no reason",), "it is NaN, and no note says why"),
        (series(1.0, np.nan), ("output_norm is not measured: no reason",), ""),
        (None, ("output_norm is not measured: no reason",), "its layers or steps are not those of eager training"),
        (ky.RunSeries(np.array([0]), np.array([[1.0, 2.0]]), ("a", "c")), (), "its layers or steps are not"),
    ],
)
def test_a_cell_is_equal_or_nan_with_a_note_and_nothing_else(
    measured: ky.RunSeries | None, notes: tuple[str, ...], fault: str
) -> None:
    cell = modes.compare("output_norm", modes.MODES["checkpoint"], measured, series(1.0, 2.0), notes)
    assert cell.fault.startswith(fault) and bool(cell.fault) == bool(fault)
    if measured is not None and np.isnan(measured.value).any() and not fault:
        assert cell.note == notes[0]
    assert modes.compare("x", modes.MODES["bf16"], series(1.0, 2.0), series(1.0, np.nan), ()).fault


def test_the_precision_of_a_format_is_derived_from_its_epsilon() -> None:
    limits = {key: mode.limit() for key, mode in modes.MODES.items()}
    assert limits["bf16"] == 8 * limits["fp16"] and limits["scaler"] == modes.LIMIT
    assert limits["bf16"] < 0.5, "a factor of 2 is found"


def test_a_fault_is_printed_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = modes.Cell(0.5, fault="it differs by 5.0e-01, and 1.0e-05 is allowed")
    monkeypatch.setattr(
        modes, "matrix", lambda keys, names: {"bf16": {"output_norm": cell, "update_norm": modes.Cell()}}
    )
    assert modes.bench_modes() == 1
    printed = capsys.readouterr()
    assert "| `output_norm` | **wrong** |" in printed.out and "| `update_norm` | = |" in printed.out
    assert "autocast to bfloat16, output_norm: it differs by 5.0e-01" in printed.err
