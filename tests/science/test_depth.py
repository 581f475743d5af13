"""Plain and residual stacks: against plain modules, the script's numbers, and the null predictor."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph_studies.data.generated import batch_indices, vector_task
from kymograph_studies.depth import WIRINGS, Depth, DepthConfig, training
from kymograph_studies.depth.training import FRESH_SAMPLES, against_null, diagnose, fresh_batch, make_net, watching
from kymograph_studies.models.replicas import initial_layers
from kymograph_studies.scripts.logs import depth_to_script
from tests.conftest import QUICK_DEPTH


class Slowly(NamedTuple):
    losses: list[float]
    forward: Callable[[torch.Tensor], tuple[torch.Tensor, list[torch.Tensor]]]
    """Maps inputs to outputs and pre-activations."""


def slowly(config: DepthConfig, seed: int) -> Slowly:
    """Trains one network with plain modules, autograd and torch's own Adam."""
    start = initial_layers(seed, config.layers, config.width, config.branch == "zero")
    layers = [torch.nn.Linear(config.width, config.width) for _ in range(config.layers)]
    for number, layer in enumerate(layers):
        layer.load_state_dict({"weight": start[f"{number}.weight"], "bias": start[f"{number}.bias"]})
    factor = 1 / math.sqrt(config.layers) if config.branch == "scaled" else 1.0
    learned = [torch.zeros((), requires_grad=True) for _ in layers] if config.branch == "zero" else None
    parameters = [p for layer in layers for p in layer.parameters()] + (learned or [])
    optimizer = torch.optim.Adam(parameters, lr=config.lr)

    def forward(h: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        seen = []
        for number, layer in enumerate(layers):
            inner = torch.nn.functional.layer_norm(h, h.shape[-1:]) if config.prenorm else h
            z = layer(inner)
            seen.append(z)
            branch = torch.relu(z) * (learned[number] if learned else factor)
            h = h + branch if config.skip else branch
        return h, seen

    task = vector_task(seed, config.task, config.n_samples, config.width, config.probe_size)
    losses = []
    for rows in batch_indices(seed, config.steps, config.batch_size, config.n_samples):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(forward(task.inputs[rows])[0], task.targets[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Slowly(losses, forward)


@pytest.mark.parametrize("task", ["identity", "orthogonal"])
def test_every_wiring_agrees_with_plain_modules_and_torchs_adam(tmp_path: Path, task: str) -> None:
    store = kymograph.run("depth", seeds=[1, 2], out=tmp_path, quiet=True, task=task, **QUICK_DEPTH)
    assert len(store.arms) == 5
    for run in store:
        config = DepthConfig(**run.config)
        losses, forward = slowly(config, run.seed)
        np.testing.assert_allclose(run.series["loss"].value, losses, rtol=1e-4, atol=1e-9, err_msg=run.arm)
        task_data = vector_task(run.seed, task, config.n_samples, config.width, config.probe_size)
        pre = [z.detach() for z in forward(task_data.probe_inputs)[1]]
        mean = [float(z.mean()) for z in pre]
        std = [float(z.std()) for z in pre]
        np.testing.assert_allclose(run.series["pre_mean"].value[-1], mean, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(run.series["pre_std"].value[-1], std, rtol=1e-4)


def test_a_run_in_a_stack_equals_the_run_alone(depth_store: Store, tmp_path: Path) -> None:
    for run in depth_store:
        if run.seed == 123:
            alone = kymograph.run("depth", seeds=[123], arms=[run.arm], out=tmp_path, quiet=True, **QUICK_DEPTH)
            for name, series in run.series.items():
                np.testing.assert_allclose(series.value, alone.runs[0].series[name].value, rtol=1e-4, atol=1e-8)


def test_diagnosis_is_what_autograd_says_at_every_site() -> None:
    config = DepthConfig(skip=True, branch="scaled", layers=3, width=5)
    net = make_net([config], [7], "cpu")
    x, y = torch.randn(2, 1, 6, 5, generator=torch.Generator().manual_seed(0))
    readings = diagnose(net, x, y)
    h, stream, pre = x.clone().requires_grad_(), [], []
    stream.append(h)
    for block in net.blocks:
        z = block.affine(h)
        h = h + torch.relu(z) / math.sqrt(3)
        pre.append(z)
        stream.append(h)
    loss = (h - y).square().mean()
    gradients = torch.autograd.grad(loss, [*pre, *stream])
    torch.testing.assert_close(readings["probe_loss"][0], loss.detach())
    close = functools.partial(torch.testing.assert_close, check_dtype=False, rtol=1e-5, atol=0)
    close(readings["grad_norm"][0], torch.stack([g.norm() for g in gradients[:3]]))
    close(readings["stream_grad"][0], torch.stack([g.norm() for g in gradients[3:]]))
    close(readings["stream_norm"][0], torch.stack([s.detach()[0].norm(dim=-1).median() for s in stream]))
    close(readings["pre_std"][0], torch.stack([z.detach().std() for z in pre]))


@pytest.mark.parametrize("probe_every", [1, 4])
def test_probes_do_not_change_a_bit_of_training(tmp_path: Path, probe_every: int) -> None:
    fields = {**QUICK_DEPTH, "probe_every": probe_every}
    dense = kymograph.run("depth", seeds=[1], arms=["residual"], out=tmp_path, quiet=True, **fields)
    never = {**QUICK_DEPTH, "probe_every": 999}
    sparse = kymograph.run("depth", seeds=[1], arms=["residual"], out=tmp_path, quiet=True, **never)
    np.testing.assert_array_equal(dense.runs[0].series["loss"].value, sparse.runs[0].series["loss"].value)
    at_end = [store.runs[0].series["stream_norm"].value[-1] for store in (dense, sparse)]
    np.testing.assert_array_equal(*at_end)


def test_arms_of_a_seed_share_weights_data_and_the_measured_batch(depth_store: Store) -> None:
    first = {arm: depth_store.series("pre_mean").sel(arm=arm, step=0).values[:, 0] for arm in depth_store.arms}
    for arm in ("residual", "residual/scaled", "residual/zero"):
        np.testing.assert_array_equal(first[arm], first["plain"], err_msg="same first layer on the same batch")


def test_the_identity_is_solved_by_a_zero_branch_before_training_and_the_rotation_is_not(
    tmp_path: Path,
) -> None:
    for task, solved in (("identity", True), ("orthogonal", False)):
        store = kymograph.run(
            "depth",
            seeds=[1],
            arms=["residual/zero", "plain"],
            out=tmp_path,
            quiet=True,
            task=task,
            **QUICK_DEPTH,
        )
        flags = {run.arm: run.summary["solved_at_start"] for run in store}
        assert flags == {"residual/zero": solved, "plain": False}


@pytest.mark.slow
def test_the_scripts_headline_is_false_in_its_own_set_up(tmp_path: Path, golden: Path) -> None:
    arms = ["plain", "residual", "residual/scaled"]
    store = kymograph.run("depth", seeds=[42], arms=arms, out=tmp_path, quiet=True)
    script = json.loads((golden / "depth_script_seed42.json").read_text())
    runs = {run.arm: run for run in store}
    plain, residual = runs["plain"].summary, runs["residual"].summary
    assert residual["initial_loss"] > 1e6 and residual["final_loss"] > 1e3 > 1 > plain["final_loss"]
    assert plain["final_loss"] == pytest.approx(script["plain"]["final"], rel=0.1)
    assert np.log10(residual["final_loss"]) == pytest.approx(np.log10(script["residual"]["final"]), abs=1)
    assert runs["residual/scaled"].summary["final_loss"] < plain["final_loss"]
    ours, theirs = (
        runs["residual"].series["grad_norm"].value[-1],
        np.array(script["residual"]["gradient_norms"]),
    )
    assert np.abs(np.log10(ours / theirs)).max() < 1, "gradients of the script's size at every layer"
    ours, theirs = runs["plain"].series["grad_norm"].value[-1], np.array(script["plain"]["gradient_norms"])
    assert np.abs(np.log10(ours / theirs)).max() < 0.5
    assert residual["final_backward_gain_low"] > 1.2, "its gradients grow on their way down"
    for arm in ("plain", "residual"):
        slope = np.polyfit(np.arange(20), np.log(script[arm]["gradient_norms"]), 1)[0]
        assert runs[arm].summary["final_pre_backward_gain"] == pytest.approx(np.exp(-slope), rel=0.05), "the script's"
    assert plain["fresh_loss_over_null"] == pytest.approx(1, rel=0.02), "plain does as well by always answering 0"
    assert residual["fresh_loss_over_null"] > 1e4, "and residual does far worse"
    assert 0.5 < runs["residual/scaled"].summary["fresh_loss_over_null"] < 0.9
    assert 0.9 < plain["final_backward_gain"] < 1.1, "and the plain ones do not vanish"


def test_the_scripts_file_has_the_scripts_layout(depth_store: Store, tmp_path: Path) -> None:
    path = kymograph.export(depth_store, "script", tmp_path / "results.json", seed=42)
    content = json.loads(path.read_text())
    assert set(content) == {"config", "plain_mlp", "res_mlp"}
    assert content["config"] == {"num_layers": 4, "hidden_dim": 8, "num_samples": 32, "training_steps": 12,
                                 "learning_rate": 1e-3, "batch_size": 8}  # fmt: skip
    network = content["res_mlp"]
    assert set(network) == {
        "final_loss",
        "initial_loss",
        "gradient_norms",
        "activation_means",
        "activation_stds",
    }
    assert len(network["gradient_norms"]) == 4
    run = next(run for run in depth_store if run.arm == "residual" and run.seed == 42)
    assert network["final_loss"] == run.summary["final_loss"]
    with pytest.raises(kymograph.KymographError, match="choose it with --seed 42"):
        kymograph.export(depth_store, "script", tmp_path / "x.json")
    with pytest.raises(kymograph.KymographError, match="'residual' is missing"):
        kymograph.export(depth_store.select(arms=["plain"]), "script", tmp_path / "x.json", seed=42)


def test_what_the_script_prints_and_draws_is_kept_and_shown(depth_store: Store) -> None:
    for run in depth_store:
        # Of lines 315, 316: parameters; of 337, 338: the range of gradients at the last measurement.
        learned = run.config["layers"] if run.arm == "residual/zero" else 0
        assert run.summary["parameters"] == 4 * (8 * 8 + 8) + learned
        gradients = run.series["grad_norm"].value[-1]
        assert run.summary["final_grad_norm_min"] == gradients.min()
        assert run.summary["final_grad_norm_max"] == gradients.max()
        assert {"loss", "grad_norm", "pre_mean", "pre_std"} <= set(run.series)
        assert {"initial_loss", "final_loss", "final_probe_loss"} <= set(run.summary)
    assert {"loss", "grad_norm", "pre_mean", "pre_std"} <= {display.series for display in Depth.series}


def test_the_gain_before_the_relu_is_the_slope_of_the_scripts_gradient_figure(depth_store: Store) -> None:
    for seed in (42, 123, 456):
        part = depth_store.select(seeds=[seed])
        content = depth_to_script(part)
        for arm, key in (("plain", "plain_mlp"), ("residual", "res_mlp")):
            (run,) = part.select(arms=[arm])
            slope = np.polyfit(np.arange(1, 5), np.log(content[key]["gradient_norms"]), 1)[0]
            assert run.summary["final_pre_backward_gain"] == pytest.approx(np.exp(-slope), rel=1e-6)
            low, high = (run.summary[f"final_pre_backward_gain_{end}"] for end in ("low", "high"))
            assert low < run.summary["final_pre_backward_gain"] < high
            first = run.series["pre_backward_gain"].value[0, 0]
            assert first == run.summary["initial_pre_backward_gain"]


def test_an_arm_owns_its_wiring(tmp_path: Path) -> None:
    for field, value in (("branch", "zero"), ("prenorm", True), ("skip", True)):
        with pytest.raises(kymograph.KymographError, match=f"{field} cannot be set"):
            kymograph.run("depth", seeds=[1], arms=["plain"], out=tmp_path, quiet=True, **{field: value})


def test_losses_stand_beside_what_answering_zero_and_a_last_relu_would_lose(depth_store: Store) -> None:
    for run in depth_store:
        y = vector_task(run.seed, "identity", 32, 8, 64).probe_targets.double()
        assert run.summary["null_loss"] == pytest.approx(float(y.square().mean()))
        floor = float(y.clamp(max=0).square().mean()) if run.arm == "plain" else 0.0
        assert run.summary["floor_loss"] == pytest.approx(floor)
        assert run.summary["final_probe_loss"] >= run.summary["floor_loss"] - 1e-6


def test_a_diverging_run_is_finished_and_says_so(tmp_path: Path) -> None:
    store = kymograph.run(
        "depth", seeds=[1], arms=["layers/100/residual"], out=tmp_path, quiet=True, steps=3, width=16, probe_every=3
    )
    (run,) = store
    assert run.status == "diverged" and run.summary["finite"] is False and run.divergence.step == 0
    assert np.isfinite(run.series["stream_norm"].value[0]).all(), "measured in float64, where float32 has no room"


def test_sweeps_of_depth_and_width(tmp_path: Path) -> None:
    fields = {k: v for k, v in QUICK_DEPTH.items() if k not in ("layers", "width")}
    store = kymograph.run("depth", seeds=[1], arms=["layers/5/*", "width/16/*"], out=tmp_path, quiet=True, **fields)
    sizes = {(run.config["layers"], run.config["width"]) for run in store}
    assert sizes == {(5, 64), (20, 16)} and len(store) == 6


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
    treatments = {wiring.name: wiring.treatment for wiring in WIRINGS}
    silent, right = (
        [RunSpec("depth", arm, 5, DepthConfig(layers=2, width=6, **treatments[arm]), 1)]
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


def test_readings_are_the_activations_and_their_gradients_keyed_by_name() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    sites = {"first": net[0], "last": net[2]}
    with watching(sites, {"min": torch.min, "sum": torch.sum}, {"norm": torch.linalg.vector_norm}) as readings:
        net(x).square().sum().backward()
    pre = nn.functional.linear(x, net[0].weight, net[0].bias).detach().requires_grad_()
    out = net[2](torch.relu(pre))
    (gradient,) = torch.autograd.grad(out.square().sum(), pre)
    torch.testing.assert_close(readings.outputs["first"]["min"], pre.detach().min())
    assert readings.outputs["first"]["min"] < 0, "taken before the in-place ReLU overwrote it"
    torch.testing.assert_close(readings.gradients["first"]["norm"], gradient.norm())
    assert list(readings.gradients) == ["last", "first"], "backward runs backward; names keep them apart"


def test_an_output_that_is_no_tensor_is_named() -> None:
    net = nn.LSTM(2, 2)
    with (
        watching({"memory": net}, {"sum": torch.sum}, {}),
        pytest.raises(KymographError, match="memory returns a tuple"),
    ):
        net(torch.ones(1, 2))


def test_watching_ends_with_its_block() -> None:
    net = nn.Linear(2, 2)
    with watching({"net": net}, {"sum": torch.sum}, {}) as readings:
        pass
    net(torch.ones(1, 2))
    assert readings.outputs == {} and not net._forward_hooks
