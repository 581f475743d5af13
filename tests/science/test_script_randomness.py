from __future__ import annotations

import random

import torch

from kymograph_studies.script_randomness import script_generator, script_random


def test_the_script_generators_give_what_global_seeding_would() -> None:
    state, python_state = torch.get_rng_state(), random.getstate()
    try:
        torch.manual_seed(7)
        random.seed(7)
        expected, sample = torch.randn(33), random.sample(range(100), 9)
    finally:
        torch.set_rng_state(state)
        random.setstate(python_state)
    assert torch.equal(torch.randn(33, generator=script_generator(7)), expected)
    assert script_random(7).sample(range(100), 9) == sample


def test_they_leave_the_global_generators_alone() -> None:
    before, python_before = torch.get_rng_state(), random.getstate()
    script_generator(1)
    script_random(1).random()
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before
