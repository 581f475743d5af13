from __future__ import annotations

import numpy as np
import pytest

import kymograph
from kymograph.claims.estimands import difference_map
from kymograph.errors import KymographError
from kymograph.runs.store import Store
from kymograph.statistics.p_values import t_test
from tests.conftest import QUICK_DEPTH


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return kymograph.run("depth", n_seeds=8, arms=["plain", "residual", "residual/zero"],
                         out=tmp_path_factory.mktemp("m"), quiet=True, **QUICK_DEPTH)  # fmt: skip


def test_a_map_has_the_mean_difference_and_a_p_value_no_smaller_than_the_lone_one(store: Store) -> None:
    found = difference_map(store, "stream_norm", "residual", "plain", log=True)
    one = np.log(store.series("stream_norm").sel(arm="residual").values)
    other = np.log(store.series("stream_norm").sel(arm="plain").values)
    np.testing.assert_allclose(found.effect, (one - other).mean(0), atol=1e-6)
    assert found.p.shape == found.effect.shape == (len(found.steps), len(found.sites or ()))
    known = ~np.isnan(found.p)
    lone = np.array([[t_test((one - other)[:, s, h]) for h in range(one.shape[2])] for s in range(one.shape[1])])
    assert (found.p[known] >= lone[known] - 1e-3).all()
    assert np.isnan(found.p[0, 0]) or found.p[0, 0] == 1.0, "both arms start from the same input"
    assert found.first() == 0, "the residual stream is longer from the start"


def test_an_arm_against_itself_never_differs(store: Store) -> None:
    found = difference_map(store, "loss", "plain", "plain")
    assert found.first() is None and found.sites is None


def test_too_few_seeds_are_refused(store: Store) -> None:
    with pytest.raises(KymographError, match="5 seeds have both arms"):
        difference_map(store.select(seeds=store.seeds[:5]), "loss", "plain", "residual")
