"""What is read along the stream."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kymograph_studies.analysis.flow import accuracy, correct_images, float64_cosines, flow, untouched
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.cut import cut


@pytest.fixture
def net() -> BlockNetwork:
    """Three layers, one of which remembers the statistics of its batches."""
    torch.manual_seed(1)
    return cut(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)))


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(20, 6, generator=draw), torch.randint(0, 3, (20,), generator=draw)


def test_gradients_agree_with_themselves_in_float64(net: BlockNetwork, batch: tuple[Tensor, Tensor]) -> None:
    gradients = [net.measured(gradient) for gradient in flow(net, *batch)[2]]
    cosines = float64_cosines(net, gradients, *batch)
    assert len(cosines) == len(net.blocks) + 1
    assert all(found.shape == (20,) and found.dtype == torch.float64 for found in cosines)
    assert all(float(found.min()) > 1 - 1e-10 for found in cosines)
    turned = float64_cosines(net, [-gradient for gradient in gradients], *batch)
    assert all(float(found.max()) < -1 + 1e-10 for found in turned)


def test_counting_correct_images_leaves_no_trace(net: BlockNetwork, batch: tuple[Tensor, Tensor]) -> None:
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.train()
    counted = correct_images(net, *batch)
    assert accuracy(net, *batch) == float(counted.double().mean())
    assert net.training and all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    net.eval()
    assert torch.equal(counted, net(batch[0]).argmax(1) == batch[1])


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
