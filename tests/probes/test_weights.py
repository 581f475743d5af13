"""Weights are read the same whether layers are read at once or one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import kymograph as ky
from kymograph._probes import weights
from tests.probes.awkward import made, trained


def series(name: str) -> dict[str, ky.RunSeries]:
    found: list[ky.Probe] = []

    def probe(net: nn.Module, optimizer) -> ky.Probe:
        found.append(ky.Probe(net, optimizer, ["weight_norm", "update_norm"], every=1))
        found[0].attach()
        return found[0]

    for _ in trained(made(name), steps=4, probe=probe):
        pass
    return found[0].series()


@pytest.mark.parametrize("name", ["plain", "tied", "several types", "frozen and unused", "images", "recurrent"])
@pytest.mark.parametrize("room", [0, 300])
def test_weights_are_the_same_however_many_layers_are_read_at_once(
    name: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = series(name)
    monkeypatch.setattr(weights, "_AT_ONCE", room)
    for quantity, one in series(name).items():
        assert one.sites == at_once[quantity].sites
        np.testing.assert_array_equal(one.value, at_once[quantity].value, err_msg=quantity)
