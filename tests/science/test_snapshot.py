"""The snapshot study: its runs against the script's draws, autograd and torch's AdamW, and their resumption."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import kymograph
from kymograph._errors import KymographError
from kymograph._runs import resume
from kymograph._runs.record import CHECKPOINT
from kymograph._runs.resume import write_resume_state
from kymograph._runs.store import Store
from kymograph._sweep.compute import Workplace
from kymograph_studies.analysis.flow import accuracy, diagnose
from kymograph_studies.data.images import Batches
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.fast.resmlp import FastBackprop, StackedDirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.script_randomness import script_generator
from kymograph_studies.snapshot import Snapshot, SnapshotConfig
from kymograph_studies.training import checkpoints as checkpoint
from kymograph_studies.training.image_training import RESUME, draw_network, make_network, make_rule
from kymograph_studies.training.trained_networks import load
from tests.cli.command import call

QUICK = {"epochs": 2, "width": 16, "depth": 2, "batch_size": 256}


class Silent:
    """Follows nothing."""

    def tick(self, steps: int) -> None:
        """Ignores it."""

    def say(self, text: str) -> None:
        """Ignores it."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two seeds of every network's plain arms, small and short."""
    out = tmp_path_factory.mktemp("snapshot")
    arms = ["resmlp/bp", "resmlp/dfa", "resmlp/*/no_out_ln", "vit/*"]
    return kymograph.run("snapshot", seeds=[42, 123], arms=arms, out=out, quiet=True, engine="serial", **QUICK)


@pytest.mark.slow
def test_every_arm_runs_and_its_numbers_are_whole(tmp_path: Path) -> None:
    runs = kymograph.run("snapshot", seeds=[1], arms=["*"], out=tmp_path, quiet=True, engine="serial", **QUICK)
    assert len(runs) == len(Snapshot().arms()) and not runs.failed.runs
    for run in runs:
        assert run.series["stream_norm"].value.shape == (3, 3) and run.series["stream_norm"].step.tolist() == [0, 1, 2]
        assert np.isfinite(run.series["stream_norm"].value).all() and np.isfinite(run.series["stream_grad"].value).all()
        assert ("gamma" in run.series) == (run.config["rule"] == "dfa")
        assert 0 <= run.summary["test_accuracy"] <= 1


@pytest.mark.slow
def test_arms_start_alike_and_see_the_same_pictures(store: Store) -> None:
    for seed in (42, 123):
        first = store.series("stream_norm").sel(seed=seed, step=0)
        for out_ln in ("", "/no_out_ln"):
            bp, dfa = (first.sel(arm=f"resmlp/{rule}{out_ln}").values for rule in ("bp", "dfa"))
            np.testing.assert_array_equal(bp, dfa)


class ScriptsBlock(nn.Module):
    """A block built as a script would build it, from torch's global generator."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.w1, self.w2 = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        nn.init.normal_(self.w2.weight, std=0.01)
        nn.init.zeros_(self.w2.bias)


def test_weights_and_matrices_are_those_the_script_draws_at_the_same_seed() -> None:
    """On a CPU, bit for bit; its class is not among the scripts, so this is the network as they describe it."""
    config = SnapshotConfig(width=32, depth=3, rule="dfa", rms=True, clip=True)
    draw = script_generator(42)
    net = draw_network(config, digits(), draw)
    feedback = make_rule(config, net, Batches(digits(), 8), draw).matrices()
    with torch.random.fork_rng():
        torch.manual_seed(42)
        parts = nn.ModuleList([nn.Linear(64, 32), *(ScriptsBlock(32) for _ in range(3)), nn.LayerNorm(32)])
        parts.append(nn.Linear(32, 10))
        matrices = [torch.randn(32, 10) / np.sqrt(10) for _ in range(3)]
    for ours, theirs in zip(net.parameters(), parts.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(feedback, matrices, strict=True):
        assert torch.equal(ours, theirs)


def test_a_run_keeps_the_matrices_drawn_after_its_network(store: Store) -> None:
    run = store.select(arms=["resmlp/dfa"], seeds=[42]).runs[0]
    config = SnapshotConfig(**run.config)
    draw, batches = script_generator(42), Batches(digits(), 8)
    flat = FlatNetwork(draw_network(config, digits(), draw))  # as training lays it out
    rule = make_rule(config, flat.net, batches, draw)
    expected = rule.matrices()
    tensors, _ = checkpoint.unpack_network(run.directory / CHECKPOINT)
    for number, matrix in enumerate(expected):
        assert torch.equal(tensors[f"feedback.{number}"], matrix)
    assert isinstance(rule, StackedDirectFeedback)
    plain = SnapshotConfig(width=16, depth=2)
    assert isinstance(make_rule(plain, draw_network(plain, digits(), draw), batches, draw), FastBackprop)
    vit = SnapshotConfig(model="vit", rule="dfa", width=16, depth=2)
    assert type(make_rule(vit, draw_network(vit, digits(), draw), batches, draw)) is DirectFeedback


def test_the_diagnosis_is_autograds_and_does_not_depend_on_the_size_of_the_buffer() -> None:
    config = SnapshotConfig(width=8, depth=2, skip=False, w2_std=0.3)
    net = make_network(config, digits(), 3)
    x, y = Batches(digits(), 8).test(40)
    result = diagnose(net, x, y, None)
    h = [net.embed(x)]
    for block in net.blocks:
        h.append(block(h[-1]))  # no skip is added where the network has none
    loss = nn.functional.cross_entropy(net.readout(h[-1]), y)
    gradients = torch.autograd.grad(loss, h)
    np.testing.assert_allclose(result["hidden_norms"], [float(p.detach().norm(dim=-1).median()) for p in h], rtol=1e-5)
    np.testing.assert_allclose(
        result["grad_norms"], [40 * float(g.norm(dim=-1).median()) for g in gradients], rtol=1e-4
    )
    np.testing.assert_allclose(result["grad_norms_F"], [40 * float(g.norm()) for g in gradients], rtol=1e-4)
    assert result["loss_eval"] == pytest.approx(float(loss.detach()), rel=1e-5)
    twice = diagnose(net, torch.cat([x, x]), torch.cat([y, y]), None)
    np.testing.assert_allclose(twice["grad_norms"], result["grad_norms"], rtol=1e-4)
    assert accuracy(net, x, y) == pytest.approx(result["acc_eval"])


def test_both_conventions_of_the_cosine_are_told() -> None:
    net = make_network(SnapshotConfig(width=8, depth=2, w2_std=0.3), digits(), 3)
    x, y = Batches(digits(), 8).test(40)
    feedback = draw_feedback(torch.Generator().manual_seed(1), [8, 8], 10)
    result = diagnose(net, x, y, DirectFeedback(net, feedback, normalise=False).credit)
    points = net.stream(x)
    logits = net.readout(points[-1])
    gradients = torch.autograd.grad(nn.functional.cross_entropy(logits, y, reduction="sum"), points)
    error = logits.detach().softmax(-1) - nn.functional.one_hot(y, 10)
    for number in range(2):
        credit = error @ feedback[number].T
        for key, index in (("cos_in", number), ("cos_out", number + 1)):
            expected = nn.functional.cosine_similarity(credit, gradients[index], eps=1e-30).mean()
            assert result[key][number] == pytest.approx(float(expected), abs=1e-5)
    assert result["gamma"] == pytest.approx(np.mean(result["cos_in"])) and result["below_floor"] == 0


@pytest.mark.parametrize("model", ["resmlp", "vit", "conv"])
def test_measuring_changes_no_bit_of_training(tmp_path: Path, model: str) -> None:
    weights = []
    for log_every in (1, 3):
        fields = {**QUICK, "epochs": 3, "log_every": log_every}
        (run,) = kymograph.run(
            "snapshot", seeds=[5], arms=[f"{model}/dfa"], out=tmp_path, quiet=True, engine="serial", **fields
        )
        weights.append(checkpoint.unpack_network(run.directory / CHECKPOINT)[0])
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


@pytest.mark.parametrize("arm", ["resmlp/bp", "resmlp/dfa", "resmlp/dfa/random_targets", "resmlp/dfa/sgd"])
def test_a_killed_run_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path: Path, arm: str) -> None:
    fields = {**QUICK, "epochs": 5, "checkpoint_every": 2}
    (spec,) = Snapshot().specs([9], [arm], fields)

    class Killer(Silent):
        def __init__(self, after: int) -> None:
            self.left = after

        def tick(self, steps: int) -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    whole = Snapshot().train([spec], Workplace("cpu", Silent(), tmp_path / "whole"))[0]
    for after in (1, 3, 5):  # before the first checkpoint, between two, after the last
        root = tmp_path / f"killed after {after}"
        with pytest.raises(KeyboardInterrupt):
            Snapshot().train([spec], Workplace("cpu", Killer(after), root))[0]
        assert (root / f"{spec.directory}.part" / RESUME).exists() == (after > 2)
        resumed = Snapshot().train([spec], Workplace("cpu", Silent(), root))[0]
        assert resumed.checkpoint == whole.checkpoint
        assert resumed.summary == whole.summary
        for name, series in whole.series.items():
            np.testing.assert_array_equal(series.value, resumed.series[name].value, err_msg=name)


@pytest.mark.parametrize("harm", ["noise", "one bit", "other code", "another run", "no epoch", "other network"])
def test_a_state_that_cannot_be_trusted_is_not_used_and_the_run_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    (spec,) = Snapshot().specs([9], ["resmlp/bp"], QUICK)
    plain = kymograph.run(
        "snapshot", seeds=[9], arms=["resmlp/bp"], out=tmp_path / "plain", quiet=True, engine="serial", **QUICK
    )[0]
    path = tmp_path / "runs" / f"{spec.directory}.part" / RESUME
    path.parent.mkdir(parents=True)
    state = {"epoch": 1, "rows": [], "training": {"x": torch.zeros(1)}}
    write_resume_state(path, {**state, "epoch": 99} if harm == "no epoch" else state, {"run": spec.id})
    if harm == "noise":
        path.write_bytes(b"\xff" * 100)
    elif harm == "one bit":
        content = bytearray(path.read_bytes())
        content[-70] ^= 1
        path.write_bytes(content)
    elif harm == "other code":
        monkeypatch.setattr(resume, "code_hash", lambda: "other")
        write_resume_state(path, state, {"run": spec.id})
        monkeypatch.undo()
    elif harm == "another run":
        write_resume_state(path, state, {"run": "x"})
    run = kymograph.run(
        "snapshot", seeds=[9], arms=["resmlp/bp"], out=tmp_path / "runs", quiet=True, engine="serial", **QUICK
    )[0]
    assert run.status == "finished" and any("started over" in note for note in run.notes)
    assert run.series_digest == plain.series_digest and run.summary == plain.summary


def test_the_checkpoint_holds_the_network_and_its_feedback(store: Store) -> None:
    run = next(run for run in store if run.arm == "resmlp/dfa")
    tensors, facts = checkpoint.unpack_network(run.directory / CHECKPOINT)
    assert facts["test_accuracy"] == run.summary["test_accuracy"]
    assert facts["feedback_hash"] == run.summary["feedback_hash"] and facts["feedback_law"].startswith("N(0, 1)")
    assert tensors["feedback.0"].shape == (16, 10)
    net = make_network(SnapshotConfig(**run.config), digits(), 0)
    net.load_state_dict({name[4:]: tensor for name, tensor in tensors.items() if name.startswith("net.")})
    x, y = Batches(digits(), 8).test()
    assert accuracy(net, x, y) == pytest.approx(run.summary["test_accuracy"])


def test_frozen_and_shallow_leave_their_parts_where_they_were(tmp_path: Path) -> None:
    for arm, still in (("resmlp/frozen", ("blocks",)), ("resmlp/shallow", ("blocks", "embed"))):
        (run,) = kymograph.run("snapshot", seeds=[3], arms=[arm], out=tmp_path, quiet=True, engine="serial", **QUICK)
        tensors, _ = checkpoint.unpack_network(run.directory / CHECKPOINT)
        start = dict(make_network(SnapshotConfig(**run.config), digits(), 3).named_parameters())
        for name, parameter in start.items():
            assert torch.equal(tensors[f"net.{name}"], parameter) == name.startswith(still), name


def test_one_step_of_bp_is_torchs_adamw(tmp_path: Path) -> None:
    fields = {**QUICK, "epochs": 1, "batch_size": 2000}
    (run,) = kymograph.run(
        "snapshot", seeds=[3], arms=["resmlp/bp"], out=tmp_path, quiet=True, engine="serial", **fields
    )
    net = make_network(SnapshotConfig(**run.config), digits(), 3)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    ((x, y),) = Batches(digits(), 2000).epoch(3, 0)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    tensors, _ = checkpoint.unpack_network(run.directory / CHECKPOINT)
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(tensors[f"net.{name}"], parameter.detach(), rtol=1e-5, atol=1e-7)


def test_blocks_are_clipped_each_on_its_own() -> None:
    from kymograph_studies.training.loop import ClipParts

    net = make_network(SnapshotConfig(width=8, depth=2), digits(), 3)
    flat = FlatNetwork(net)
    flat.gradients.normal_(generator=torch.Generator().manual_seed(0))
    flat.gradients[0, flat.spans["blocks.1"]] *= 1e-3
    before = flat.gradients.clone()
    spans = [flat.spans["blocks.0"], flat.spans["blocks.1"]]
    assert ClipParts(spans, 1.0)(flat.gradients, None).tolist() == [True]
    assert float(flat.gradients[0, spans[0]].norm()) == pytest.approx(1.0, rel=1e-5)
    for name in ("blocks.1", "embed", "readout"):
        assert torch.equal(flat.gradients[0, flat.spans[name]], before[0, flat.spans[name]])


def test_settings_that_make_no_sense_are_refused() -> None:
    for fields, message in (
        ({"epochs": -1}, "epochs must be at least 1"),
        ({"penalty": 0.1, "rule": "bp"}, "penalty is an option of the rule dfa"),
        ({"model": "vit", "width": 30}, "multiple of its 4 heads"),
        ({"rule": "frozen", "rms": True}, "rms needs credit"),
    ):
        with pytest.raises(KymographError, match=message):
            SnapshotConfig(**fields)  # type: ignore[arg-type]
    assert SnapshotConfig().epochs == 60 and SnapshotConfig(data="cifar10").epochs == 100


def test_settings_are_checked_with_the_arms_own(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("run", "snapshot", "--epochs", "1", "--width", "8", "--seeds", "42", "--dir", str(tmp_path), "--quiet")
    assert call(*words, "--arms", "resmlp/dfa", "--penalty", "0.5") == 0
    assert "1 run computed" in capsys.readouterr().out
    assert Store.open(tmp_path).runs[0].config["penalty"] == 0.5
    for options, message in (
        (("--arms", "resmlp/bp", "--penalty", "0.5"), "penalty is an option of the rule dfa, not of bp"),
        (("--arms", "conv/bp", "--skip"), "skip cannot be set: the arm 'conv/bp' fixes it at False"),
    ):
        assert call(*words, *options) == 1 and message in capsys.readouterr().err
    study = Snapshot()
    agreeing = study.specs([42], ["conv/bp"], {"skip": False})
    assert agreeing == study.specs([42], ["conv/bp"]), "what agrees with the arm is no contradiction"
    study.prepare(study.specs([42], ["vit/bp", "resmlp/bp"], {"expansion": 2}), None)
    assert "note: expansion is a setting of resmlp, not of vit" in capsys.readouterr().err


def test_an_output_that_is_no_number_is_no_answer(store: Store) -> None:
    net = load(store.runs[0].directory, need_feedback=False).net
    x, y = torch.zeros(8, 1, 8, 8), torch.zeros(8, dtype=torch.long)
    assert accuracy(net, x, y) in (0.0, 1.0)
    with torch.no_grad():
        net.head.bias[3] = float("nan")
    assert math.isnan(accuracy(net, x, y)) and math.isnan(diagnose(net, x, y, None)["acc_eval"])


@pytest.mark.slow
def test_figures_from_the_store_keep_their_published_names(store: Store, tmp_path: Path) -> None:
    assert call("figure", "--dir", str(store.root), "-o", str(tmp_path)) == 0
    names = {path.name for path in tmp_path.glob("*.pdf")}
    assert names == {"figure_snapshot_resmlp.pdf", "figure_snapshot_vit.pdf", "snapshot-kymograph.pdf",
                     "snapshot-kymograph-gradient.pdf", "snapshot-differences.pdf"}  # fmt: skip


def test_a_network_of_one_block_has_no_gradient_at_h_2(tmp_path: Path) -> None:
    store = kymograph.run(
        "snapshot", seeds=[42], arms=["resmlp/bp"], out=tmp_path, quiet=True, engine="serial", epochs=1, depth=1
    )
    assert store.runs[0].summary["final_g_2"] is None and store.runs[0].summary["final_g_2_script"] is None


@pytest.mark.slow
def test_on_digits_dfa_grows_the_stream_a_thousandfold_and_bp_does_not(tmp_path: Path) -> None:
    store = kymograph.run(
        "snapshot", seeds=[42], arms=["resmlp/bp", "resmlp/dfa"], out=tmp_path, quiet=True, engine="serial"
    )
    norm = {run.arm: run.summary["final_h_L"] for run in store}
    assert norm["resmlp/bp"] < 50 and norm["resmlp/dfa"] > 1000 * norm["resmlp/bp"]


@pytest.mark.cifar
def test_one_epoch_of_real_cifar10_has_the_sizes_of_the_scripts(tmp_path: Path) -> None:
    fields = {"data": "cifar10", "epochs": 1}
    store = kymograph.run(
        "snapshot", seeds=[42], arms=["resmlp/bp", "resmlp/dfa"], out=tmp_path, quiet=True, engine="serial", **fields
    )
    bp, dfa = (run.summary for run in store)
    # What the script itself gives at this seed on a CPU, from the same weights and matrices, images in another order.
    assert bp["acc_eval"] == pytest.approx(0.406, abs=0.04) and dfa["acc_eval"] == pytest.approx(0.308, abs=0.04)
    assert bp["final_h_L"] == pytest.approx(97.5, rel=0.15) and dfa["final_h_L"] == pytest.approx(1.022e4, rel=0.2)
    assert bp["final_g_2_script"] == pytest.approx(5.175e-5, rel=0.2)
    assert dfa["final_g_2_script"] == pytest.approx(1.007e-6, rel=0.3)
