"""Every command that trains or measures, on a pretended device: its words and its files are those of the CPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import kymograph
from kymograph._cli.arguments import option_fields
from kymograph._cli.main import VERBS
from kymograph._cli.verbs.maintenance import options_type
from kymograph._runs.store import Store
from kymograph_studies import prove_rules as proof
from kymograph_studies import reproduce
from kymograph_studies.calibration import checkpoint as calibrate
from kymograph_studies.models import MODELS, draw_model
from kymograph_studies.snapshot import SnapshotConfig
from tests.cli.command import QUICK, call
from tests.devices.few_images import instead_of_digits
from tests.devices.pretended import pretended_device

NETWORK = {"epochs": 1, "depth": 2, "width": 8, "batch_size": 40}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Few images, small networks, and no figures: what takes time here is not what is tested."""
    small = {"depth": 2, "width": 8}
    with instead_of_digits(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "save_figure", lambda *_: [])
        patch.setattr(proof, "SnapshotConfig", lambda **fields: SnapshotConfig(**{**fields, **small}))
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A network trained by DFA and one trained by backpropagation, on the CPU."""
    out, arms = tmp_path_factory.mktemp("trained"), ["resmlp/dfa", "resmlp/bp"]
    return kymograph.run("snapshot", seeds=[42], arms=arms, out=out, device="cpu", quiet=True, **NETWORK)


def directory(trained: Store, arm: str) -> str:
    return str(trained.select(arms=[arm]).runs[0].directory)


def on_both(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Returns what a command prints on the CPU, and on a pretended device."""
    printed = []
    for device in ("cpu", "cuda"):
        filled = [word.format(device=device) for word in words]
        if device == "cpu":
            assert call(*filled, "--device", device) == 0
        else:
            with pretended_device():
                assert call(*filled, "--device", device) == 0
        printed.append(capsys.readouterr().out.replace(device, "DEVICE"))
    return printed[0], printed[1]


def same_json(directory: Path, name: str) -> bool:
    found = [(directory / device / name).read_text() for device in ("cpu", "cuda")]
    return json.loads(found[0].replace("/cpu/", "/cuda/")) == json.loads(found[1])


def test_calibrate(trained: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"{tmp_path}/{{device}}"
    words = ("calibrate", directory(trained, "resmlp/dfa"), "--draws", "19", "-o", out)
    on_cpu, on_cuda = on_both(capsys, *words)
    assert on_cpu == on_cuda and "h_2" in on_cpu
    assert same_json(tmp_path, "calibration.json")


def test_calibrate_a_file_of_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = draw_model("resmlp", 1, 8, 7, torch.Generator().manual_seed(0), depth=2, width=8, out_ln=True)
    names = {"norm": "out_ln", "head": "out_head"}
    state = {".".join([names.get(part, part), *rest]): own for (part, *rest), own in _split(net)}
    torch.save({"state_dict": state, "Bs": [torch.randn(8, 7) for _ in range(2)], "test_acc": 0.5}, tmp_path / "net.pt")
    words = ("calibrate", f"{tmp_path}/net.pt", "--data", "digits", "--draws", "19", "--nulls", "fresh")
    on_cpu, on_cuda = on_both(capsys, *words, "-o", f"{tmp_path}/{{device}}")
    assert on_cpu == on_cuda and "h_2" in on_cpu


def _split(net: nn.Module) -> Iterator[tuple[list[str], Tensor]]:
    return ((name.split("."), own) for name, own in net.state_dict().items())


def test_audit_with_its_ladder(trained: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("audit", directory(trained, "resmlp/dfa"), "--quiet", "--dir", f"{tmp_path}/{{device}}")
    on_cpu, on_cuda = on_both(capsys, *words, "-o", f"{tmp_path}/{{device}}/audit.json")
    assert on_cpu == on_cuda and "descent" in on_cpu
    assert same_json(tmp_path, "audit.json")
    ladder = Store.open(tmp_path / "cuda")
    assert len(ladder.runs) == 4 and {run.provenance["device"] for run in ladder} == {"cuda"}


def test_audit_of_backpropagation(trained: Store, capsys: pytest.CaptureFixture[str]) -> None:
    on_cpu, on_cuda = on_both(capsys, "audit", directory(trained, "resmlp/bp"), "--no-ladder")
    assert on_cpu == on_cuda and "random directions" in on_cpu


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.names())
def test_rules(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    on_cpu, on_cuda = on_both(capsys, "rules", "--model", model)
    assert on_cpu == on_cuda and "WRONG" not in on_cpu


def test_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_both(
        capsys, "run", "clipping", "--seeds", "42", "--arms", "extreme/clip", "--dir", f"{tmp_path}/{{device}}", *QUICK
    )
    stores = [Store.open(tmp_path / device) for device in ("cpu", "cuda")]
    assert [store.runs[0].provenance["device"] for store in stores] == ["cpu", "cuda"]
    assert dict(stores[0].runs[0].summary) == dict(stores[1].runs[0].summary)
    assert stores[1].runs[0].provenance["accelerator"]["name"] == "Pretended GPU"


def test_auto_is_the_accelerator(tmp_path: Path) -> None:
    with pretended_device():
        store = kymograph.run(
            "clipping", seeds=[42], arms=["extreme/clip"], out=tmp_path, quiet=True, n_samples=40, epochs=1, n_rare=3
        )
    assert {run.provenance["device"] for run in store} == {"cuda"}


def test_reproduce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [reproduce.Stage("calibration", "calibration", ["vanilla"], {**NETWORK, "draws": 19}, draw=False)]
    monkeypatch.setattr(reproduce, "stages", lambda *_: stages)
    with pretended_device():
        assert (
            call("reproduce", "--n-seeds", "1", "--dir", str(tmp_path), "--device", "cuda", "--engine", "serial") == 0
        )
    store = Store.open(tmp_path)
    assert not list(store.failed) and {run.provenance["device"] for run in store} == {"cuda"}


def test_no_command_with_a_device_is_left_out() -> None:
    with_device = {name for name in VERBS.names() if "device" in set(option_fields(options_type(name)))}
    assert with_device == {"run", "reproduce", "audit", "calibrate", "rules", "variance"}


def test_variance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = f"{tmp_path}/{{device}}"
    words = ("variance", "snapshot", "--n-seeds", "2", "--arms", "resmlp/bp", "--engine", "serial", "--dir", out)
    on_cpu, on_cuda = on_both(capsys, *words, "--epochs", "1", "--depth", "2", "--width", "8", "--batch-size", "40")
    assert on_cpu == on_cuda and "initialisation" in on_cpu
