from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.errors import KymographError
from kymograph_studies.analysis.flow import untouched, watching
from kymograph_studies.training.loop import WeightTrace


def test_readings_are_the_activations_and_their_gradients_keyed_by_name() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    sites = {"first": net[0], "last": net[2]}
    with watching(sites, {"min": torch.min, "sum": torch.sum}, {"norm": torch.linalg.vector_norm}) as readings:
        net(x).square().sum().backward()
    pre = torch.nn.functional.linear(x, net[0].weight, net[0].bias).detach().requires_grad_()
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


def test_untouched_puts_back_mode_and_gradients_even_after_an_error() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    net[0].eval()
    kept = torch.ones(2, 2)
    net[0].weight.grad = kept
    with pytest.raises(RuntimeError), untouched(net):
        assert not net.training
        net(torch.ones(1, 2)).sum().backward()
        assert net[0].weight.grad is not kept
        raise RuntimeError
    assert net.training and net[1].training and not net[0].training
    assert net[0].weight.grad is kept and torch.equal(kept, torch.ones(2, 2))


@pytest.mark.parametrize("steps", [1, 7, 50, 51, 120])
def test_the_trace_measures_every_step_whatever_its_blocks(steps: int) -> None:
    draw = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 5, generator=draw)
    states = [weights.clone()]
    trace = WeightTrace(weights, keep_every=10, block=50)
    for _ in range(steps):
        weights += 0.1 * torch.randn(3, 5, generator=draw)
        trace.record()
        states.append(weights.clone())
    path = torch.stack(states).double()
    torch.testing.assert_close(trace.norms(), path[1:].norm(dim=-1))
    torch.testing.assert_close(trace.moves(), path.diff(dim=0).norm(dim=-1))
    assert torch.equal(trace.kept(), torch.stack(states[1::10]))
