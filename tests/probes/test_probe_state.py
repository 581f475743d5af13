"""A probe that goes on from its state reads what an uninterrupted one reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._probes.schedule import Schedule
from kymograph._runs.resume import flatten, unflatten
from tests.probes.awkward import X, Y, loss_of, made


def steps(probe: ky.Probe, net: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
    """Trains some steps under a probe."""
    with probe:
        for step in numbers:
            with probe.step(step):
                optimizer.zero_grad()
                loss_of(net, (X, Y)).backward()
                optimizer.step()


def series(name: str, cut: int | None, **options: Any) -> tuple[dict[str, ky.RunSeries], tuple[str, ...]]:
    """Trains eight steps; with ``cut`` a second probe goes on from the state of the first, as it is stored."""
    net = made(name)
    torch.manual_seed(0)  # dropout
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    probe = ky.Probe(net, optimizer, every=1, loss=loss_of, batch=(X, Y), **options)
    if cut is None:
        steps(probe, net, optimizer, range(8))
        return probe.series(), probe.notes
    probe.attach()
    for step in range(cut):
        with probe.step(step):
            optimizer.zero_grad()
            loss_of(net, (X, Y)).backward()
            optimizer.step()
    tensors, shape = flatten(probe.state())
    again = ky.Probe(net, optimizer, every=1, loss=loss_of, batch=(X, Y), **options)
    again.load_state(unflatten(shape, tensors))
    steps(again, net, optimizer, range(cut, 8))
    return again.series(), again.notes


@pytest.mark.parametrize("cut", [0, 1, 5])
@pytest.mark.parametrize("level", ["standard", "deep"])
def test_a_probe_that_goes_on_reads_the_same_bits(level: str, cut: int) -> None:
    whole, notes = series("plain", None, level=level)
    parted, noted = series("plain", cut, level=level)
    assert notes == noted and list(whole) == list(parted)
    for name, one in whole.items():
        assert one.sites == parted[name].sites and np.array_equal(one.step, parted[name].step)
        assert np.array_equal(one.value, parted[name].value, equal_nan=True), name


def test_the_state_of_another_probe_is_refused() -> None:
    net = made("plain")
    state = ky.Probe(net, level="light").state()
    with pytest.raises(KymographError, match="a probe with other quantities or layers"):
        ky.Probe(net, level="standard").load_state(state)


def test_a_schedule_with_a_budget_goes_on() -> None:
    clock = iter(range(1000))
    one = Schedule(1, 0.5, clock=lambda: float(next(clock)))
    for step in range(20):
        one.begin()
        one.end(step, one.due(step))
    other = Schedule(1, 0.5)
    other.load_state(one.state())
    assert other.interval == one.interval and other.state() == one.state()
    assert [other.due(step) for step in range(20, 40)] == [one.due(step) for step in range(20, 40)]
