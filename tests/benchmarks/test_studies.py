from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from benchmarks import naive, studies
from kymograph._errors import KymographError


def test_the_naive_depth_is_the_scripts() -> None:
    losses = naive.depth_seed(42, steps=2)
    assert losses["residual"][0] > 1e6 > 10 > losses["plain"][0]


def test_the_scripts_pictures_are_cropped_and_normalised_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    task = studies.ImageTask(
        "few",
        torch.full((4, 3, 32, 32), 255, dtype=torch.uint8),
        torch.zeros(4, dtype=torch.long),
        torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(1, dtype=torch.long),
        studies.MEAN,
        studies.STD,
        10,
        True,
    )
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([4]))  # no shift
    picture, _ = studies.ScriptDataset(task)[0]
    expected = studies.Batches(task, 4).normalise(task.train[:1])[0]
    torch.testing.assert_close(picture, expected, atol=1e-5, rtol=0)


def test_a_process_that_dies_is_told_in_a_sentence() -> None:
    silent = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True)
    with silent, pytest.raises(KymographError, match="a process of the comparison stopped"):
        studies._wait_for_line([silent])


@pytest.mark.slow
def test_an_epoch_in_a_sweep_is_about_an_epoch_on_one_thread_divided_by_the_cores() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = studies.our_epoch("dfa")
    torch.set_num_threads(before)
    together = studies.sweep_epoch("dfa") * (os.cpu_count() or 1)
    assert alone / 2 < together < alone * 5, "start-up is not in it, sharing a machine is"
