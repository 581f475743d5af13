from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph_studies.data.generated import vector_task
from kymograph_studies.depth import WIRINGS, DepthConfig, training
from kymograph_studies.depth.training import FRESH_SAMPLES, against_null, fresh_batch, make_net
from tests.conftest import QUICK_DEPTH
from tests.science.test_depth import slowly


@pytest.mark.parametrize("task", ["identity", "orthogonal"])
def test_fresh_data_are_of_the_same_task_and_of_no_other_batch(task: str) -> None:
    known = vector_task(3, task, 200, 16, 64)
    inputs, targets = fresh_batch(3, task, 16)
    assert inputs.shape == targets.shape == (FRESH_SAMPLES, 16) and inputs.abs().max() <= 1
    seen = {tuple(row.tolist()) for row in torch.cat([known.inputs, known.probe_inputs])}
    assert not seen & {tuple(row.tolist()) for row in inputs}
    # The task is linear, so its training data say what the fresh targets must be.
    task_map = np.linalg.lstsq(known.inputs.double().numpy(), known.targets.double().numpy(), rcond=None)[0]
    np.testing.assert_allclose(inputs.double().numpy() @ task_map, targets.numpy(), atol=1e-5)
    assert targets.square().mean().item() == pytest.approx(1 / 3, rel=0.03)
    torch.testing.assert_close(fresh_batch(3, task, 16)[0], inputs, rtol=0, atol=0)
    assert not torch.equal(fresh_batch(4, task, 16)[0], inputs)


@pytest.mark.parametrize("task", ["identity", "orthogonal"])
def test_the_loss_over_the_null_predictors_is_that_of_plain_modules(tmp_path: Path, task: str) -> None:
    store = kymograph.run("depth", seeds=[1, 2], out=tmp_path, quiet=True, task=task, **QUICK_DEPTH)
    for run in store:
        x, y = fresh_batch(run.seed, task, run.config["width"])
        answer = slowly(DepthConfig(**run.config), run.seed).forward(x)[0].detach().double().numpy()
        # One less the share of the targets' second moment that the answers explain.
        error, null = np.linalg.norm(answer - y.double().numpy()) ** 2, np.linalg.norm(y.double().numpy()) ** 2
        found = run.summary
        assert found["fresh_loss_over_null"] == pytest.approx(error / null, rel=1e-3, abs=1e-9), run.arm
        assert found["fresh_loss"] == pytest.approx(error / y.numel(), rel=1e-3, abs=1e-9)
        assert found["fresh_null_loss"] == pytest.approx(null / y.numel(), rel=1e-6)


def test_answering_zero_is_one_and_answering_right_is_zero() -> None:
    config = DepthConfig(layers=2, width=6)
    silent, right = (
        [RunSpec("depth", arm, 5, DepthConfig(layers=2, width=6, **WIRINGS[arm][1]), 1)]
        for arm in ("plain", "residual/zero")
    )
    net = make_net([config], [5], "cpu")
    with torch.no_grad():
        net.flat.values.zero_()
    assert against_null(net, silent, "cpu")[0]["fresh_loss_over_null"] == 1.0
    solved = make_net([right[0].config], [5], "cpu")  # its branches start at zero, so it is the identity
    assert against_null(solved, right, "cpu")[0]["fresh_loss_over_null"] == 0.0


def test_measuring_on_fresh_data_changes_no_weight_no_gradient_and_no_other_number(
    depth_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = make_net([DepthConfig(skip=True, layers=2, width=6)], [5], "cpu")
    net.flat.gradients.fill_(3.0)
    before, state = net.flat.values.clone(), torch.get_rng_state()
    against_null(net, [RunSpec("depth", "residual", 5, DepthConfig(skip=True, layers=2, width=6), 1)], "cpu")
    assert torch.equal(net.flat.values, before) and (net.flat.gradients == 3.0).all()
    assert torch.equal(torch.get_rng_state(), state)

    monkeypatch.setattr(training, "against_null", lambda net, specs, device: [{} for _ in specs])
    without = kymograph.run("depth", seeds=[42, 123, 456], out=tmp_path, quiet=True, engine="serial", **QUICK_DEPTH)
    runs = {(run.arm, run.seed): run for run in without}
    for run in depth_store:
        other = runs[run.arm, run.seed]
        for name, series in run.series.items():
            np.testing.assert_array_equal(series.value, other.series[name].value, err_msg=name)
        fresh = {"fresh_loss", "fresh_null_loss", "fresh_loss_over_null"}
        assert set(run.summary) - set(other.summary) == fresh
        assert {name: run.summary[name] for name in other.summary} == other.summary
