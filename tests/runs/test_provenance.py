"""What a record says about the machine that made it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from kymograph._runs.provenance import accelerator, built_in_files, provenance
from tests.devices.pretended import pretended_device

ALWAYS = {"versions", "hardware", "code", "device", "threads", "byteorder"}


def test_a_run_on_the_cpu_has_no_accelerator() -> None:
    found = provenance("cpu", 2)
    assert set(found) == ALWAYS and (found["device"], found["threads"]) == ("cpu", 2)


def test_a_run_on_a_card_says_which_and_how_it_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with pretended_device("cuda", count=2):
        found = provenance("cuda:1", 1)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Card {device}")
        assert accelerator("cuda:1")["name"] == "Card 1" and accelerator("cuda")["name"] == "Card 0"
    assert set(found) == {*ALWAYS, "accelerator"}
    assert found["accelerator"] == {
        "name": "Pretended GPU",
        "cuda": "12.4",
        "cudnn": 90100,
        "tf32_matmul": False,
        "tf32_cudnn": True,
        "deterministic_algorithms": False,
        "cudnn_deterministic": False,
        "cudnn_benchmark": True,
    }
    assert json.loads(json.dumps(found)) == found


def test_settings_are_those_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_device("cuda"):
        monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
        found = accelerator("cuda")
    assert found["cudnn_deterministic"] is True and found["deterministic_algorithms"] is True


def test_tf32_is_known_when_it_was_set_by_its_newer_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Matmul:
        fp32_precision = "tf32"

        @property
        def allow_tf32(self) -> bool:
            raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch.backends.cuda, "matmul", Matmul())
    with pretended_device("cuda"):
        assert accelerator("cuda")["tf32_matmul"] is True


def test_another_accelerator_has_a_name_too() -> None:
    assert set(accelerator("mps")) == {"name", "deterministic_algorithms"}


def test_torch_is_not_loaded_for_it() -> None:
    code = "import sys; from kymograph._runs.provenance import *; provenance('cuda', 1); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_the_hash_of_the_code_covers_the_studies_that_are_shipped_with_the_tool() -> None:
    """A state on disk must not be resumed by other code of a study, and a worker must not have other code."""
    assert {"kymograph/_runs/provenance.py", "kymograph_studies/depth/training.py"} <= built_in_files().keys()
    assert not any(name.startswith("tests") for name in built_in_files())
