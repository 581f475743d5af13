"""Several ranks that train one network are measured as one process on the whole batch, or NaN with a note."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import kymograph as ky

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not dist.is_gloo_available(), reason="torch has no gloo backend")]
STEPS = 7
LEVEL = "deep"
ROWS = {2: (4, 8), 3: (3, 4, 5), 4: (3, 3, 3, 3)}
"""How many of twelve samples each rank has, by the number of ranks."""
CANNOT_BE_COMBINED = {"effective_rank"}
OF_ALL_WEIGHTS = {"sharpness", "sharpness_residual", "gradient_noise_scale"}


class Small(nn.Module):
    """Layers of every kind that is measured; sizes that no number of ranks divides; a tied weight; a replicated output.

    ``gate`` has one entry, fewer than there are ranks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Embedding(5, 7)
        self.inner = nn.Linear(7, 7)
        self.relu = nn.ReLU()
        self.tied = nn.Linear(7, 7)
        self.tied.weight = self.inner.weight
        self.tanh = nn.Tanh()
        self.attention = nn.MultiheadAttention(7, 1, batch_first=True)
        self.gate = nn.Linear(7, 1, bias=False)
        self.norm = nn.LayerNorm(7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = x + self.position(torch.arange(5))
        h = h + self.tied(self.relu(self.inner(h) - 0.5))
        a, _ = self.attention(h, h, h)
        h = self.norm(h + self.tanh(3 * a) * self.gate(h))
        return self.head(h)


def made() -> nn.Module:
    torch.manual_seed(0)
    return Small()


def data(step: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(100 + step)
    return torch.randn(12, 5, 7, generator=source), torch.randn(12, 5, 3, generator=source)


def rows_of(rank: int, size: int) -> slice:
    start = sum(ROWS[size][:rank])
    return slice(start, start + ROWS[size][rank])


def mean_square(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (net(batch[0]) - batch[1]).square().mean()


def mean_over_ranks(net: nn.Module, batch: tuple[Tensor, Tensor], size: int) -> Tensor:
    """The loss that data parallelism minimises: the mean over ranks of each one's mean over its samples."""
    errors = (net(batch[0]) - batch[1]).square()
    return torch.stack([errors[rows_of(rank, size)].mean() for rank in range(size)]).mean()


def probed(net: nn.Module, optimizer: torch.optim.Optimizer, every: int = 1) -> ky.Probe:
    return ky.Probe(net, optimizer, LEVEL, every=every, loss=mean_square, batch=data(99))


def train(
    net: nn.Module, loss_of: Callable[..., Tensor], probe: bool = True, micro_batches: int = 1, sync: Any = None
) -> tuple[ky.Probe | None, list[Tensor]]:
    """Trains, and returns the probe and the weights; each micro-batch is every so many samples of the rank's."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    used = probed(net, optimizer) if probe else None
    with used or nullcontext():
        for step in range(STEPS):
            with used.step(step) if used else nullcontext():
                optimizer.zero_grad()
                for index in range(micro_batches):
                    with (sync or nullcontext)() if index < micro_batches - 1 else nullcontext():
                        (loss_of(net, step, index) / micro_batches).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
    return used, [weight.detach().clone() for weight in net.parameters()]


def whole(size: int, micro_batches: int = 1) -> ky.Probe:
    """One process on the batch of all ranks."""

    def loss_of(net: nn.Module, step: int, index: int) -> Tensor:
        x, y = data(step)
        if micro_batches == 1:
            return mean_over_ranks(net, (x, y), size)
        of_ranks = [torch.arange(12)[rows_of(rank, size)][index::micro_batches] for rank in range(size)]
        rows = torch.cat(of_ranks)
        errors = (net(x[rows]) - y[rows]).square().split([len(one) for one in of_ranks])
        return torch.stack([one.mean() for one in errors]).mean()

    probe, _ = train(made(), loss_of, micro_batches=micro_batches)
    assert probe is not None
    return probe


# What the ranks do, each in a process of its own


def in_ddp(net: nn.Module) -> nn.Module:
    return DistributedDataParallel(net)


def sharded(net: nn.Module, **options: Any) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    shape = (2, 2) if dist.get_world_size() == 4 else (dist.get_world_size(),)
    names = ("replicate", "shard")[-len(shape) :]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for module in (net.attention, net.head):  # not `inner` and `tied`, which share a weight
        fully_shard(module, mesh=mesh, **options)  # type: ignore[arg-type]
    return fully_shard(net, mesh=mesh, **options)  # type: ignore[return-value]


def sharded_loss(net: nn.Module, step: int, index: int = 0, micro_batches: int = 1) -> Tensor:
    mine = rows_of(dist.get_rank(), dist.get_world_size())
    x, y = data(step)
    return mean_square(net, (x[mine][index::micro_batches], y[mine][index::micro_batches]))


def without_sync(net: nn.Module) -> Any:
    if isinstance(net, DistributedDataParallel):
        return net.no_sync

    class NoSync:
        def __enter__(self) -> None:
            net.set_requires_gradient_sync(False)  # type: ignore[operator]

        def __exit__(self, *_: object) -> None:
            net.set_requires_gradient_sync(True)  # type: ignore[operator]

    return NoSync


def local_weights(weights: list[Tensor]) -> list[np.ndarray]:
    return [(weight.to_local() if hasattr(weight, "to_local") else weight).numpy() for weight in weights]


def store(path: Path, probe: ky.Probe, same: bool) -> None:
    series = probe.series()
    np.savez(path.with_suffix(".npz"), **{name: one.value for name, one in series.items()})
    described = {
        "sites": {name: one.sites for name, one in series.items()},
        "steps": {name: one.step.tolist() for name, one in series.items()},
        "notes": probe.notes,
        "same weights": same,
        "strategy": [probe.strategy.name, probe.strategy.divisor, dict(probe.strategy.mesh)],
    }
    path.with_suffix(".json").write_text(json.dumps(described))


def scenarios(size: int) -> Iterator[tuple[str, Callable[[], nn.Module], int]]:
    wraps = {"ddp": in_ddp, "fsdp2": sharded} if size < 4 else {"fsdp2": sharded}
    for name, wrap in wraps.items():
        yield name, lambda wrap=wrap: wrap(made()), 1
        if size == 2:
            yield f"{name}, accumulated", lambda wrap=wrap: wrap(made()), 2


def ranks_train(rank: int, size: int, meeting: str, results: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    for name, build, micro_batches in scenarios(size):
        weights = []
        for watched in (True, False):
            net = build()
            loss = functools.partial(sharded_loss, micro_batches=micro_batches)
            probe, trained = train(net, loss, watched, micro_batches, without_sync(net))
            weights.append(local_weights(trained))
            if probe is not None:
                used = probe
        same = all(np.array_equal(one, other) for one, other in zip(*weights, strict=True))
        store(Path(results) / f"{name} {rank}", used, same)
    if size == 2:
        mixed(rank, results)
        wrapped_later(rank, results)
        gathered(rank, results)
        with_a_budget(rank, results)
        uneven_numbers_of_steps(rank, results)
        refusals(rank, results)
    dist.destroy_process_group()


def mixed(rank: int, results: str) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    net = sharded(made(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    probe, _ = train(net, lambda net, step, index: sharded_loss(net, step).float())
    assert probe is not None
    store(Path(results) / f"mixed {rank}", probe, True)


def wrapped_later(rank: int, results: str) -> None:
    """The probe is given what is inside the wrapper, as frameworks do."""
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    with probed(net, optimizer) as probe:
        outer = DistributedDataParallel(net)
        for step in range(STEPS):
            with probe.step(step):
                optimizer.zero_grad()
                sharded_loss(outer, step).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
    store(Path(results) / f"wrapped later {rank}", probe, True)


def gathered(rank: int, results: str) -> None:
    net = DistributedDataParallel(made())
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    with ky.Probe(net, optimizer, ["effective_rank", "output_norm"], every=1, gather=True) as probe:
        for step in range(STEPS):
            with probe.step(step):
                optimizer.zero_grad()
                sharded_loss(net, step).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
    store(Path(results) / f"gathered {rank}", probe, True)


def with_a_budget(rank: int, results: str) -> None:
    """Measuring is slow on rank 1 only, and rank 0 decides how often both measure."""
    net = DistributedDataParallel(made())
    with ky.Probe(net, None, ["output_norm"], every=1, budget=0.5) as probe:
        for step in range(60):
            with probe.step(step) as measured:
                sharded_loss(net, step % 3).backward()
                if measured and rank == 1:
                    time.sleep(0.01)
    store(Path(results) / f"budget {rank}", probe, True)


def uneven_numbers_of_steps(rank: int, results: str) -> None:
    """Rank 1 has fewer batches; DistributedDataParallel's own `join` lets it end first."""
    net = DistributedDataParallel(made())
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with ky.Probe(net, optimizer, ["output_norm", "output_size"], every=1) as probe, net.join():
        for step in range(11 - 3 * rank):
            with probe.step(step):
                optimizer.zero_grad()
                sharded_loss(net, step).backward()
                optimizer.step()
    store(Path(results) / f"uneven {rank}", probe, True)


def refusals(rank: int, results: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    texts = {}
    for name, build in {
        "tensor parallel": lambda: parallelize_module(
            nn.Linear(4, 4), init_device_mesh("cpu", (2,)), ColwiseParallel()
        ),
        "FSDP1": lambda: FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu")),
        "pipeline": lambda: nn.Sequential(*[nn.Linear(4, 4) for _ in range(2 + rank)]),
    }.items():
        try:
            ky.Probe(build())
        except ky.KymographError as error:
            texts[name] = str(error)
    (Path(results) / f"refusals {rank}.json").write_text(json.dumps(texts))


# What is tested


@pytest.fixture(scope="module", params=[2, 3, 4])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """The directory into which all ranks have written what they measured."""
    path = tmp_path_factory.mktemp(f"ranks-{request.param}")
    torch.multiprocessing.spawn(ranks_train, (request.param, str(path / "meeting"), str(path)), nprocs=request.param)
    return request.param, path


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(path.with_name(path.name + ".npz")) as found:
        return dict(found), json.loads(path.with_name(path.name + ".json").read_text())


def compare(found: dict[str, np.ndarray], told: dict[str, Any], one: ky.Probe, rtol: float = 1e-5) -> list[str]:
    """Returns what is NaN on several ranks and a number in one process; everything else must be equal."""
    missing = []
    for name, series in one.series().items():
        assert told["sites"][name] == (None if series.sites is None else list(series.sites)), name
        assert told["steps"][name] == series.step.tolist()
        value = found[name]
        lost = np.isnan(value) & ~np.isnan(series.value)
        for column in np.flatnonzero(lost.reshape(len(lost), -1).any(0)):
            site = "" if series.sites is None else f" at {series.sites[column]}"
            missing.append(f"{name}{site}")
        scale = np.nanmax(np.abs(series.value), axis=0, keepdims=True, initial=0.0)
        atol = (1e-3 if name == "sharpness_residual" else 1e-5) * scale  # the residual is itself a rounding error
        difference = np.where(lost, 0.0, np.nan_to_num(np.abs(value - series.value)))
        assert (difference <= rtol * np.abs(np.nan_to_num(series.value)) + atol).all(), (name, difference.max(0))
    return missing


def test_every_quantity_is_that_of_one_process_or_missing_with_a_note(results: tuple[int, Path]) -> None:
    size, path = results
    for name, _, micro_batches in scenarios(size):
        one = whole(size, micro_batches)
        for rank in range(size):
            found, told = load(path / f"{name} {rank}")
            missing = compare(found, told, one)
            expected = {f"effective_rank at {site}" for site in one.series()["effective_rank"].sites or ()}
            if micro_batches > 1:
                expected = set()  # NaN in one process as well
            expected |= {"output_gradient_norm at position"}
            if name.startswith("fsdp2"):
                expected |= OF_ALL_WEIGHTS
            assert set(missing) == expected, (name, rank)
            for quantity in {one.split(" at ")[0] for one in missing}:
                assert any(quantity in note for note in told["notes"]), (quantity, told["notes"])
            assert told["same weights"], (name, rank)


def test_the_strategy_is_known(results: tuple[int, Path]) -> None:
    size, path = results
    for name, _, _ in scenarios(size):
        _, told = load(path / f"{name} 0")
        mesh = {"replicate": 2, "shard": 2} if size == 4 else {"shard": size}
        assert told["strategy"] == [name.split(",")[0], size, mesh if name.startswith("fsdp2") else {}]


def test_mixed_precision_is_measured(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    found, _ = load(path / "mixed 0")
    one = whole(size)
    value, exact = found["weight_norm"][0], one.series()["weight_norm"].value[0]
    np.testing.assert_allclose(value, exact, rtol=1e-6)  # before the first step: float32 shards
    for name in ("output_norm", "weight_gradient_norm", "update_norm", "raw_weight_gradient_norm"):
        np.testing.assert_allclose(found[name][0], one.series()[name].value[0], rtol=0.05, err_msg=name)


def test_rank_0_decides_how_often_a_budget_lets_all_measure(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    steps = [load(path / f"budget {rank}")[1]["steps"]["output_norm"] for rank in range(2)]
    assert steps[0] == steps[1]
    assert len(steps[0]) > 4


def test_effective_rank_is_that_of_the_batch_if_rows_are_gathered(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    one = whole(size).series()["effective_rank"]
    for rank in range(2):
        found, told = load(path / f"gathered {rank}")
        assert told["sites"]["effective_rank"] == list(one.sites or ())
        # Also at `position`, whose rows are the same on both ranks: twice the same rows have the same rank.
        np.testing.assert_allclose(found["effective_rank"], one.value, rtol=1e-5)
        assert not [note for note in told["notes"] if "effective_rank" in note]


def test_a_network_that_is_wrapped_after_its_probe_was_made(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    found, told = load(path / "wrapped later 1")
    assert told["strategy"][:2] == ["ddp", 2]
    compare(found, told, whole(size))


def test_a_rank_with_fewer_steps_waits_for_the_others(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    for rank in range(2):
        found, told = load(path / f"uneven {rank}")
        assert told["steps"]["output_size"] == list(range(11))
        inner = told["sites"]["output_size"].index("inner")
        samples = found["output_size"][:, inner] / (5 * 7)
        assert samples.tolist() == [12] * 8 + [4] * 3


def test_other_kinds_of_parallelism_are_refused(results: tuple[int, Path]) -> None:
    size, path = results
    if size != 2:
        pytest.skip("tried with two ranks")
    for rank in range(2):
        texts = json.loads((path / f"refusals {rank}.json").read_text())
        assert "tensor parallelism" in texts["tensor parallel"]
        assert "fully_shard" in texts["FSDP1"]
        assert "pipeline parallelism" in texts["pipeline"]
