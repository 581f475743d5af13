"""Every study on a pretended device: it runs there from first to last, and its numbers are the CPU's, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import kymograph
from kymograph import _streams as streams
from kymograph._runs.record import ARRAYS, CHECKPOINT
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._studies.loading import STUDIES
from kymograph._sweep.compute import Workplace
from kymograph_studies.analysis import nulls
from kymograph_studies.data.images import Batches
from kymograph_studies.snapshot import Snapshot
from kymograph_studies.training import image_training
from kymograph_studies.training.image_study import ImageSettings
from tests.conftest import QUICK_DEPTH
from tests.devices.few_images import CLASSES, few_images, instead_of_digits
from tests.devices.pretended import pretended_device

NETWORK = {"epochs": 1, "depth": 2, "width": 8, "batch_size": 40}
SMALL: dict[str, tuple[Sequence[str] | None, dict[str, Any]]] = {
    "clipping": (
        ["extreme/no_clip", "extreme/clip", "extreme/clip_value", "extreme/clip_adaptive", "learnable/extreme/clip"],
        {"n_samples": 40, "epochs": 1, "n_rare": 3, "probe_every": 20, "window": 10},
    ),
    "depth": (None, QUICK_DEPTH),
    "snapshot": (
        [
            *("resmlp/bp", "resmlp/bp/rms", "resmlp/shallow", "resmlp/frozen", "vit/*", "conv/*", "resmlp/dfa"),
            *(
                f"resmlp/dfa/{what}"
                for what in ("no_out_ln", "no_skip", "random_targets", "no_rms", "sgd", "penalised")
            ),
        ],
        NETWORK,
    ),
    "calibration": (["vanilla", "penalised"], {**NETWORK, "draws": 19}),
    "audit": (["*/last[0-2]"], NETWORK),
    "rule-family": (
        ["mlp/kp/*", "conv-bn/dfa", "transformer/fa"],
        {**NETWORK, "training_samples": 48, "validation_samples": 20, "measurements": 2, "draws": 2},
    ),
}
"""Arms and settings that take no time; a study that is not listed runs as it is."""


@pytest.fixture(scope="module", autouse=True)
def _few_images() -> Iterator[None]:
    with instead_of_digits():
        yield


def run(study: str, out: Path, device: str) -> Store:
    """Returns the runs of a small study, computed in this process."""
    arms, fields = SMALL.get(study, (None, {}))
    return kymograph.run(study, seeds=[42], arms=arms, out=out, engine="serial", device=device, quiet=True, **fields)


def assert_same_numbers(found: StoredRun, expected: StoredRun) -> None:
    assert found.id == expected.id
    assert dict(found.summary) == dict(expected.summary)
    for name in (ARRAYS, CHECKPOINT):
        paths = found.directory / name, expected.directory / name
        assert paths[0].exists() == paths[1].exists()
        assert not paths[0].exists() or paths[0].read_bytes() == paths[1].read_bytes(), (found.arm, name)


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES.names())
def test_numbers_are_those_of_the_cpu(study: str, tmp_path: Path) -> None:
    expected = run(study, tmp_path / "cpu", "cpu")
    with pretended_device("cuda"):
        found = run(study, tmp_path / "cuda", "cuda")
    assert not list(found.failed), [failed.traceback for failed in found.failed]
    assert len(found.runs) == len(expected.runs) > 1
    for mine, other in zip(found, expected, strict=True):
        assert mine.provenance["device"] == "cuda"
        assert_same_numbers(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize("study", ["clipping", "depth", "calibration", "rule-family"])
def test_studies_run_where_there_is_no_float64(study: str, tmp_path: Path) -> None:
    with pretended_device("mps"):
        found = run(study, tmp_path, "mps")
    assert not list(found.failed), [failed.traceback for failed in found.failed]


def test_an_interrupted_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    (spec,) = Snapshot().specs([42], ["resmlp/dfa"], {**NETWORK, "epochs": 3, "checkpoint_every": 1})
    expected = image_training.fit(spec, spec.config, Workplace("cpu", Counting(), tmp_path / "cpu"))
    with pretended_device("cuda"):
        with pytest.raises(KeyboardInterrupt):
            image_training.fit(spec, spec.config, Workplace("cuda", Counting(stop_at=3), tmp_path / "cuda"))
        second = Counting()
        found = image_training.fit(spec, spec.config, Workplace("cuda", second, tmp_path / "cuda"))
        weights = [parameter.detach().cpu() for parameter in found.net.parameters()]
    assert second.measured == 2, "it had begun again"
    assert all(map(torch.equal, weights, expected.net.parameters()))


class Counting:
    """Counts the measurements of a run, and interrupts it at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.measured, self._stop_at = 0, stop_at

    def tick(self, steps: int) -> None: ...

    def say(self, text: str) -> None:
        self.measured += 1
        if self.measured == self._stop_at:
            raise KeyboardInterrupt


def test_augmented_batches_are_those_of_the_cpu() -> None:
    task = few_images(augment=True)
    expected = list(Batches(task, 40).epoch(42, 0))
    with pretended_device("cuda"):
        found = [(x.device.type, x.cpu(), y.cpu()) for x, y in Batches(task, 40, "cuda").epoch(42, 0)]
    assert len(found) == len(expected) == 3
    for (device, x, y), (other_x, other_y) in zip(found, expected, strict=True):
        assert device == "cuda" and torch.equal(x, other_x) and torch.equal(y, other_y)


def test_random_targets_are_of_all_classes_and_no_others() -> None:
    """Ten classes were assumed once."""
    settings, batch = ImageSettings(random_targets=True), (torch.zeros(500, 1), torch.zeros(500, dtype=torch.long))
    ((_, drawn),) = image_training._labelled(settings, CLASSES, [batch], 42, 0)
    assert set(drawn.tolist()) == set(range(CLASSES))


def reasons_of_failure(tmp_path: Path) -> list[str]:
    """Returns why the runs of `calibration` fail on a pretended device."""
    with pretended_device("cuda"):
        store = run("calibration", tmp_path, "cuda")
    return [str(failed.reason) for failed in store.failed]


def test_matrices_that_stay_on_the_cpu_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Calibration once multiplied matrices drawn on the CPU with gradients on the GPU."""

    def on_the_cpu(pairs, feedback, serving, draws, seed):  # type: ignore[no-untyped-def]
        draw = streams.generator(seed, "null", "fresh")
        stacks = [nulls._fresh_matrices(feedback[index].cpu(), draws, draw) for index in serving]
        return torch.stack([pair.mean_cosines(stack) for pair, stack in zip(pairs, stacks, strict=True)])

    monkeypatch.setattr(nulls, "draw_fresh", on_the_cpu)
    reasons = reasons_of_failure(tmp_path)
    assert len(reasons) == 2 and all("same device" in reason for reason in reasons)


def test_arrays_made_from_values_on_the_device_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Calibration once called `.numpy()` on values on the GPU."""
    draw = nulls.draw_rows
    monkeypatch.setattr(nulls, "draw_rows", lambda *given: SimpleNamespace(cpu=lambda: draw(*given)))  # left there
    reasons = reasons_of_failure(tmp_path)
    assert len(reasons) == 2 and all("to numpy" in reason for reason in reasons)
