"""The pretended device itself: it must raise where a real one does, and nowhere else."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.devices.pretended import pretended_device

MIXED = "same device"


@pytest.fixture
def cuda() -> Iterator[None]:
    """One pretended CUDA device."""
    with pretended_device("cuda"):
        yield


def on_cuda(*shape: int) -> Tensor:
    return torch.rand(*shape, device="cuda")


def test_ends_with_its_block() -> None:
    before = torch.cuda.is_available()
    with pretended_device("cuda"):
        inside = torch.ones(2, device="cuda")
        assert torch.cuda.is_available() and inside.is_cuda
    assert torch.cuda.is_available() == before
    assert inside.device == torch.device("cpu")


@pytest.mark.usefixtures("cuda")
class TestWhere:
    def test_factories(self) -> None:
        assert torch.zeros(3).device == torch.device("cpu")
        for made in (
            torch.zeros(3, device="cuda"),
            torch.tensor([1.0], device=torch.device("cuda")),
            torch.arange(3, device="cuda:0"),
            torch.empty_like(torch.zeros(3), device="cuda"),
            torch.as_tensor(torch.zeros(3), device="cuda"),
            torch.zeros(3, device="cuda").new_zeros(2),
            torch.zeros(3, device="cuda").new_tensor([2.0]),
            torch.ones_like(torch.zeros(3, device="cuda")),
            torch.zeros(3).new_zeros(2, device="cuda"),
        ):
            assert made.device == torch.device("cuda:0") and made.is_cuda and not made.is_cpu
        assert torch.zeros_like(torch.zeros(3, device="cuda"), device="cpu").device.type == "cpu"
        with torch.device("cuda"):
            assert torch.zeros(3).is_cuda

    def test_moves_are_copies(self) -> None:
        here = torch.zeros(3)
        there = here.to("cuda")
        there += 1
        assert here.tolist() == [0, 0, 0] and there.tolist() == [1, 1, 1]
        assert there.cpu().device.type == "cpu" and there.to("cpu").device.type == "cpu"
        assert here.cuda().is_cuda and here.to(there).is_cuda and there.to(here).is_cpu
        assert there.to("cuda") is there and here.cpu() is here
        assert there.to(torch.float64).is_cuda and here.to("cuda", torch.float64).dtype == torch.float64

    def test_views_and_results(self) -> None:
        there = on_cuda(4, 3)
        assert there.view(-1)[2:].is_cuda and there.T.is_cuda and torch.as_strided(there, (2,), (1,)).is_cuda
        assert (there @ there.T).is_cuda and there.sum().is_cuda and there.sort(1).values.is_cuda
        assert all(part.is_cuda for part in there.split(2))
        out = torch.empty(0, device="cuda")
        torch.sum(there, 0, out=out)
        assert out.is_cuda and out.shape == (3,)

    def test_in_inference_mode(self) -> None:
        with torch.inference_mode():
            there = on_cuda(4, 3)
            assert nn.functional.linear(there, on_cuda(2, 3)).is_cuda and there.double().reshape(-1).is_cuda
            with pytest.raises(RuntimeError, match=MIXED):
                there @ torch.ones(3)

    def test_modules_and_their_copies(self) -> None:
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to("cuda")
        twin = copy.deepcopy(net)
        assert all(tensor.is_cuda for tensor in (*twin.parameters(), *twin.buffers()))
        assert copy.deepcopy(on_cuda(3)).is_cuda
        assert all(tensor.is_cpu for tensor in twin.cpu().state_dict().values())
        assert next(net.parameters()).is_cuda
        assert nn.Linear(3, 3, device="cuda").weight.is_cuda

    def test_loading(self) -> None:
        file = io.BytesIO()
        torch.save({"w": torch.ones(2)}, file)
        file.seek(0)
        assert torch.load(file, map_location="cuda")["w"].is_cuda

    def test_addresses_are_not_used_again(self) -> None:
        for _ in range(200):
            on_cuda(5)
            assert torch.ones(5).is_cpu


@pytest.mark.usefixtures("cuda")
class TestMixing:
    def test_operands(self) -> None:
        here, there = torch.rand(3, 3), on_cuda(3, 3)
        for mix in (
            lambda: here + there,
            lambda: there @ here,
            lambda: torch.cat([here, there]),
            lambda: torch.stack([there.sum(), here.sum()]),
            lambda: torch.addmm(there[0], there, here),
            lambda: there.add_(here),
            lambda: torch.mul(there, there, out=here),
            lambda: nn.functional.cross_entropy(there, torch.zeros(3, dtype=torch.long)),
            lambda: there.gather(0, torch.zeros(1, 3, dtype=torch.long)),
            lambda: torch.where(here > 0.5, there, 0.0),
            lambda: nn.Linear(3, 3)(there),
        ):
            with pytest.raises(RuntimeError, match=MIXED):
                mix()

    def test_scalars_of_the_cpu_are_fetched(self) -> None:
        there = on_cuda(3)
        assert (there * torch.tensor(2.0)).is_cuda and (torch.tensor(2.0) - there).is_cuda
        assert there.masked_fill(there > 0.5, torch.tensor(0.0)).is_cuda
        assert torch.where(there > 0.5, there, torch.nan).is_cuda
        for mix in (lambda: torch.ones(3) * there.sum(), lambda: torch.tensor(2.0).add_(there.sum())):
            with pytest.raises(RuntimeError, match=MIXED):
                mix()

    def test_indices_of_the_cpu_are_fetched(self) -> None:
        here, there = torch.rand(3, 2), on_cuda(3, 2)
        index, mask = torch.tensor([0, 2]), torch.tensor([True, False, True])
        assert there[index].is_cuda and there[mask].is_cuda
        there[index] = 0.0
        there[index] = on_cuda(2, 2)
        there[0] = here[0]  # a copy, not an operation
        here[0] = there[0]
        for mix in (lambda: here[index.cuda()], lambda: there.index_select(0, index)):
            with pytest.raises(RuntimeError, match=MIXED):
                mix()
        with pytest.raises(RuntimeError, match=MIXED):
            there[index] = torch.ones(2, 2)

    def test_copies_cross(self) -> None:
        here, there = torch.zeros(2), torch.ones(2, device="cuda")
        assert here.copy_(there).is_cpu and there.copy_(torch.full((2,), 3.0)).is_cuda
        assert here.tolist() == [1, 1] and there.tolist() == [3, 3]

    def test_backward(self) -> None:
        weight = on_cuda(3).requires_grad_()
        seen = []
        product = weight * 2
        product.register_hook(lambda gradient: seen.append((gradient.device.type, gradient.new_ones(1).is_cuda)))
        product.sum().backward()
        assert weight.grad is not None and weight.grad.is_cuda and seen == [("cuda", True)]
        with pytest.raises(RuntimeError, match="different device"):
            weight.grad = torch.zeros(3)
        square = weight.square()
        square.register_hook(lambda gradient: torch.ones(3))
        with pytest.raises(RuntimeError, match=MIXED):
            square.sum().backward()

    def test_backward_through_a_move(self) -> None:
        weight = on_cuda(3).requires_grad_()
        (weight.cpu() * torch.ones(3)).sum().backward()
        assert weight.grad is not None and weight.grad.is_cuda

    def test_lists_of_operands(self) -> None:
        values, steps = [[on_cuda(3)] for _ in range(4)], torch.zeros(1)
        settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}

        def update(step: Tensor) -> None:
            torch._fused_adamw_(*values, [], [step], amsgrad=False, maximize=False, **settings)

        update(steps[0].cuda())
        with pytest.raises(RuntimeError, match=MIXED):
            update(steps[0])


@pytest.mark.usefixtures("cuda")
class TestHost:
    def test_numpy(self) -> None:
        there = on_cuda(3)
        for convert in (lambda: there.numpy(), lambda: np.asarray(there), lambda: np.array([there[0], there[1]])):
            with pytest.raises(TypeError, match="to numpy"):
                convert()
        with pytest.raises(TypeError, match="to numpy"):
            there[:1].double().numpy()
        assert there.cpu().numpy().shape == (3,) and len(there.tolist()) == 3 and float(there[0]) >= 0
        assert torch.from_numpy(np.ones(2)).is_cpu

    def test_generators(self) -> None:
        draw = torch.Generator().manual_seed(0)
        for mix in (
            lambda: torch.randn(3, generator=draw, device="cuda"),
            lambda: torch.randperm(3, generator=draw, device="cuda"),
            lambda: torch.zeros(3, device="cuda").normal_(generator=draw),
            lambda: nn.init.normal_(torch.zeros(3, device="cuda"), generator=draw),
        ):
            with pytest.raises(RuntimeError, match="device type for generator"):
                mix()
        assert torch.randn(3, generator=draw).to("cuda").is_cuda


def test_two_cards() -> None:
    with pretended_device("cuda", count=2):
        first, second = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
        assert torch.cuda.device_count() == 2 and second.device.index == 1
        with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
            first + second
        assert (first + second.to(first.device)).tolist() == [2, 2]


def test_mps_has_no_float64() -> None:
    with pretended_device("mps"):
        there = torch.ones(2).to("mps")
        assert there.device.type == "mps" and there.cpu().double().dtype == torch.float64
        for widen in (
            there.double,
            lambda: torch.ones(2, dtype=torch.float64).to("mps"),
            lambda: torch.ones(2, device="mps", dtype=torch.float64),
        ):
            with pytest.raises(TypeError, match="float64"):
                widen()
        assert torch.ones(2, dtype=torch.float64).to("mps", torch.float32).device.type == "mps"
