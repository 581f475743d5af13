"""Quantities of a layer or a network next to a second way of computing each."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._probes.fixed_batch import FixedBatch, largest_eigenpair
from kymograph._probes.quantities import load
from kymograph._probes.quantities.activations import effective_rank_of
from kymograph._probes.quantities.curvature import noise_scale
from tests.probes.awkward import X, Y, loss_of, made


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense_hessian(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    names = [name for name, parameter in net.named_parameters() if parameter.requires_grad]
    sizes = [net.get_parameter(name).numel() for name in names]
    start = torch.cat([net.get_parameter(name).detach().flatten() for name in names])

    def loss(vector: Tensor) -> Tensor:
        pieces = zip(names, vector.split(sizes), strict=True)
        values = {name: piece.view_as(net.get_parameter(name)) for name, piece in pieces}
        return F.cross_entropy(torch.func.functional_call(net, values, (batch[0],)), batch[1])

    return torch.autograd.functional.hessian(loss, start)


def test_sharpness_is_the_largest_eigenvalue_of_the_dense_hessian_at_every_step() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    expected = []
    with ky.Probe(net, optimizer, ["sharpness", "sharpness_residual"], 1, loss=loss_of, batch=(X, Y)) as probe:
        for step in range(12):
            expected.append(float(torch.linalg.eigvalsh(dense_hessian(net, (X, Y)))[-1]))
            with probe.step(step):
                optimizer.zero_grad()
                loss_of(net, (X, Y)).backward()
                optimizer.step()
    found = probe.series()
    np.testing.assert_allclose(found["sharpness"].value, expected, rtol=1e-4)
    assert found["sharpness"].sites is None and bool((found["sharpness_residual"].value <= 1e-3).all())


def test_a_warm_start_needs_fewer_products() -> None:
    matrix = drawn(60, 60)
    matrix = matrix + matrix.T
    counts = []

    def product(vector: Tensor) -> Tensor:
        counts[-1] += 1
        return matrix @ vector

    counts.append(0)
    cold = largest_eigenpair(product, drawn(60, seed=1))
    counts.append(0)
    warm = largest_eigenpair(product, cold.vector + 1e-4 * drawn(60, seed=2))
    assert counts[1] < counts[0] / 2 and warm.value == pytest.approx(cold.value, rel=1e-6)


@given(size=st.integers(1, 12), seed=st.integers(0, 99), exponent=st.integers(-30, 30))
def test_the_largest_eigenvalue_is_found_at_every_scale_also_below_a_larger_negative_one(
    size: int, seed: int, exponent: int
) -> None:
    matrix = drawn(size, size, seed=seed)
    matrix = (matrix + matrix.T - 3 * torch.eye(size)) * 10.0**exponent
    pair = largest_eigenpair(lambda vector: matrix @ vector, drawn(size, seed=seed + 1))
    values = torch.linalg.eigvalsh(matrix)
    assert abs(pair.value - float(values[-1])) <= 1e-4 * float(values.abs().max())
    error = float((matrix @ pair.vector - pair.value * pair.vector).norm())
    assert error / abs(pair.value) == pytest.approx(pair.residual, rel=1e-3, abs=1e-9)


def test_a_loss_that_is_linear_in_the_weights_has_no_sharpness() -> None:
    net = nn.Linear(6, 1)
    fixed = FixedBatch(net, lambda model, batch: model(batch).sum(), X)
    with fixed.hessian() as product:
        assert not product(torch.ones(7, dtype=torch.float64)).any()


def test_what_a_network_does_not_allow_is_a_note_and_nan() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return gradient

    net = nn.Linear(6, 3)
    once = {"loss": lambda model, batch: F.cross_entropy(Once.apply(model(batch[0])), batch[1]), "batch": (X, Y)}
    with ky.Probe(net, level=["sharpness"], every=1, **once) as probe:
        for step in range(2):
            with probe.step(step):
                pass
    assert np.isnan(probe.series()["sharpness"].value).all() and len(probe.notes) == 1
    assert probe.notes[0].startswith("sharpness is not measured: ")


@given(n=st.integers(2, 8), d=st.integers(1, 5), seed=st.integers(0, 99))
def test_noise_scale_of_single_samples_is_the_closed_form(n: int, d: int, seed: int) -> None:
    class Point(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.at = nn.Parameter(drawn(d, seed=seed) * 3)

        def forward(self, x: Tensor) -> Tensor:
            return (self.at - x).square().sum(-1) / 2  # a sample's gradient is at - x

    net, x = Point(), drawn(n, d, seed=seed + 1)
    with (
        ky.Probe(
            net, level=["gradient_noise_scale"], every=1, loss=lambda model, batch: model(batch).mean(), batch=x
        ) as probe,
        probe.step(0),
    ):
        pass
    noise = float(x.var(0).sum())
    signal = float((net.at.detach() - x.mean(0)).square().sum()) - noise / n
    found = probe.rows()[0].values["gradient_noise_scale"]["network"]
    assert found == pytest.approx(noise / signal, rel=1e-9) if signal > 0 else math.isnan(found)


def test_noise_scale_is_unbiased_in_both_parts() -> None:
    true, spread = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), 3.0
    gradients = true + spread * drawn(20_000, 64, 3)  # many batches of 64 samples
    small = gradients.view(20_000, 8, 8, 3).mean(2).square().sum(-1).mean()
    large = gradients.mean(1).square().sum(-1).mean()
    expected = 3 * spread**2 / float(true.square().sum())
    assert float(noise_scale(small, large, 8, 64)) == pytest.approx(expected, rel=0.02)
    assert math.isnan(float(noise_scale(torch.tensor(8.0), torch.tensor(1.0), 8, 64)))


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    for batch in (torch.ones(1, 6), (X, Y[:3]), torch.tensor(1.0)):
        with pytest.raises(KymographError, match="one leading axis of at least 2"):
            _ = FixedBatch(nn.Linear(6, 3), loss_of, batch).samples
    with pytest.raises(KymographError, match="a tensor with one entry"):
        FixedBatch(nn.Linear(6, 3), lambda model, batch: model(batch), X).gradient(X)


@given(values=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), exponent=st.integers(-150, 100))
def test_effective_rank_is_exp_of_the_entropy_of_the_singular_values(values: list[float], exponent: int) -> None:
    singular = torch.tensor(values, dtype=torch.float64)
    size = len(values)
    left = torch.linalg.qr(drawn(9, size)).Q
    right = torch.linalg.qr(drawn(size, size, seed=1)).Q
    share = singular / singular.sum()
    expected = math.exp(-float((share * share.log()).sum()))
    matrix = left @ torch.diag(singular * 10.0**exponent) @ right
    assert float(effective_rank_of(matrix)) == pytest.approx(expected, rel=1e-6)
    assert 1 - 1e-9 <= expected <= size + 1e-9


def test_effective_rank_where_it_is_not_defined_and_beside_the_squared_one() -> None:
    assert math.isnan(float(effective_rank_of(torch.zeros(3, 2))))
    assert math.isnan(float(effective_rank_of(torch.tensor([[1.0, math.nan], [0.0, 1.0]]))))
    assert effective_rank_of(torch.stack([torch.eye(3), torch.ones(3, 3)])).tolist() == pytest.approx([3.0, 1.0])


def test_effective_rank_of_a_layer_is_that_of_its_samples_by_units() -> None:
    net = made("images")
    with ky.Probe(net, level=["effective_rank"], every=1, layers=["1", "5"]) as probe, probe.step(0):
        images = net[1](net[0](X))
        net(X)
    probe_values = probe.rows()[0].values["effective_rank"]
    assert probe_values["1"] == pytest.approx(float(effective_rank_of(images.movedim(1, -1).reshape(-1, 4))), rel=1e-6)


@given(
    rows=st.integers(1, 6),
    units=st.integers(1, 6),
    seed=st.integers(0, 99),
    shift=st.floats(-3, 3),
    calls=st.integers(1, 3),
)
def test_dead_and_saturated_fractions_are_counted(rows: int, units: int, seed: int, shift: float, calls: int) -> None:
    inputs = [(drawn(rows, units, seed=seed + call) * 2 + shift).float() for call in range(calls)]
    acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid(), "gelu": nn.GELU()})
    with ky.Probe(acts, level="standard", every=1) as probe, probe.step(0):
        for x in inputs:
            for act in acts.values():
                act(x)
    values = probe.rows()[0].values
    dead = sum(not bool((x[:, unit] > 0).any()) for x in inputs for unit in range(units))
    assert values["dead_fraction"] == {"relu": pytest.approx(dead / units / calls)}
    flat = [float((1 - torch.tanh(x).square() < 0.05).double().mean()) for x in inputs]
    slope = [torch.sigmoid(x) * (1 - torch.sigmoid(x)) for x in inputs]
    half = [float((one < 0.05 / 4).double().mean()) for one in slope]
    expected = {"tanh": pytest.approx(sum(flat) / calls), "sigmoid": pytest.approx(sum(half) / calls)}
    assert values["saturated_fraction"] == expected


def test_cosines_of_gradients_below_what_float32_squares_hold() -> None:
    net = nn.Linear(4, 1, bias=False)
    with ky.Probe(net, level=["gradient_cosine", "weight_gradient_norm"], every=1) as probe:
        for step, slope in enumerate(([3e-30, 4e-30, 0, 0], [6e-30, 8e-30, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0])):
            with probe.step(step):
                net.weight.grad = torch.tensor([slope], dtype=torch.float32)
    values = probe.series()
    np.testing.assert_allclose(values["gradient_cosine"].value[:, 0], [np.nan, 1, np.nan, np.nan], rtol=1e-6)
    np.testing.assert_allclose(values["weight_gradient_norm"].value[:, 0], [5e-30, 1e-29, 0, 1], rtol=1e-6)


def test_a_users_quantity_is_one_file_with_a_literal(tmp_path, monkeypatch) -> None:
    from kymograph import _registry as registry

    (tmp_path / "stable_rank.py").write_text(
        '"""Stable rank."""\nPART = {"about": "stable rank of the weights", "at": "weight", "together": "max"}\n\n\n'
        "def stable_rank(weights):\n"
        "    return [w.square().sum() / w.reshape(len(w), -1).svd().S[0] ** 2 for w in weights]\n"
    )
    information = tmp_path / "mine-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[kymograph.quantities]\nstable-rank = stable_rank\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._in_packages.cache_clear()
    try:
        net = nn.Linear(3, 2)
        with ky.Probe(net, level=["stable_rank"], every=1) as probe, probe.step(0):
            pass
        singular = torch.linalg.svdvals(net.weight.detach())
        expected = max(1.0, float(singular.square().sum() / singular[0] ** 2))
        assert probe.rows()[0].values["stable_rank"]["(model)"] == pytest.approx(expected, rel=1e-5)
    finally:
        registry._in_packages.cache_clear()


def test_a_quantity_that_does_not_say_where_it_is_read_is_refused(monkeypatch) -> None:
    from dataclasses import replace

    from kymograph._probes.quantities import QUANTITIES

    part = QUANTITIES.part("output-norm")
    monkeypatch.setattr(QUANTITIES, "part", lambda name: replace(part, properties={**part.properties, "at": "nowhere"}))
    with pytest.raises(KymographError, match="needs either 'from', the quantities"):
        load(["output_norm"])
