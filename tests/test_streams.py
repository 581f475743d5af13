from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph import _streams as streams
from kymograph._errors import KymographError


def test_a_stream_does_not_depend_on_what_else_was_drawn() -> None:
    first = torch.rand(5, generator=streams.generator(42, "batches"))
    torch.rand(100, generator=streams.generator(42, "init"))
    torch.rand(100)
    assert torch.equal(first, torch.rand(5, generator=streams.generator(42, "batches")))


@given(st.integers(0, 2**40), st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_names_are_not_run_together(seed: int, names: list[str]) -> None:
    if len(names) > 1 and "\x1f" not in "".join(names):
        assert streams.stream_seed(seed, *names) != streams.stream_seed(seed, "".join(names))
    assert 0 <= streams.stream_seed(seed, *names) <= streams.MAX_SEED


def test_streams_leave_the_global_generators_alone() -> None:
    before, python_before = torch.get_rng_state(), random.getstate()
    streams.generator(1, "x")
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before


@pytest.mark.parametrize("count", [1, 3, 10, 100])
def test_fixed_seeds_start_alike_and_never_repeat(count: int) -> None:
    seeds = streams.fixed_seeds(count)
    assert seeds[:3] == (42, 123, 456)[:count]
    assert len(set(seeds)) == count
    assert streams.fixed_seeds(count + 5)[:count] == seeds


@pytest.mark.parametrize("fixed", [streams.fixed_seeds, streams.fixed_tuning_seeds])
def test_the_fixed_lists_end(fixed: Callable[[int], tuple[int, ...]]) -> None:
    """There are 100,000 numbers to draw from: asked for more seeds, it used to draw for ever."""
    assert len(set(fixed(streams.MOST_SEEDS))) == streams.MOST_SEEDS
    with pytest.raises(KymographError, match=r"has 10,000 seeds, not 100001; list the seeds yourself"):
        fixed(100_001)
