from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.text import Text

import kymograph
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._claims.measures import reduce
from kymograph._claims.verdict import Outcome
from kymograph._errors import KymographError
from kymograph._runs.record import CHECKPOINT, RunSeries
from kymograph._runs.store import Store
from kymograph._statistics.p_values import holm
from kymograph_studies.analysis import NULLS, REFERENCE, null_label
from kymograph_studies.analysis.calibration import calibrate
from kymograph_studies.calibration import Calibration
from kymograph_studies.data.images import Batches
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.models.blocks import initialise
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.snapshot import SnapshotConfig
from kymograph_studies.training import checkpoints as checkpoint
from kymograph_studies.training.image_training import make_network
from kymograph_studies.training.trained_networks import load
from tests.cli.command import call

QUICK = {"epochs": 2, "width": 16, "depth": 3, "draws": 99}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two seeds of vanilla and penalised DFA, small and short."""
    return kymograph.run(
        "calibration", seeds=[42, 123], out=tmp_path_factory.mktemp("c"), quiet=True, engine="serial", **QUICK
    )


def test_a_run_holds_its_cosines_its_nulls_and_its_control(store: Store) -> None:
    for run in store:
        assert run.series["cosine"].sites == ("h_0", "h_1", "h_2", "h_3")
        assert run.series["null_fresh"].value.shape == (99, 5) and run.series["null_fresh"].sites[-1] == "deep"
        assert run.summary["control_cosine"] == pytest.approx(1.0)
        deep = run.series["cosine"].value[0, 1:].mean()
        assert run.summary["deep_cosine"] == pytest.approx(deep)
        null = run.series["null_fresh"].value
        np.testing.assert_allclose(null[:, -1], null[:, 1:4].mean(1))
        assert run.summary["deep_p"] == pytest.approx((1 + (null[:, -1] >= deep).sum()) / 100)
        assert (run.series["recheck"].value > 0.999).all()
        assert {f"deep_p_{name}" for name in NULLS.names()} <= set(run.summary)


def test_the_last_point_is_served_by_the_last_blocks_matrix_once_per_draw() -> None:
    net = make_network(SnapshotConfig(width=8, depth=2, w2_std=0.3), digits(), 1)
    x, y = Batches(digits(), 8).test(50)
    feedback = [torch.randn(8, 10, generator=torch.Generator().manual_seed(n)) for n in range(2)]
    found = calibrate(net, feedback, x, y, draws=50, nulls=("fresh",))
    same = calibrate(net, [feedback[0], feedback[1]], x, y, draws=50, nulls=("fresh",))
    for one, two in zip(found.layers, same.layers, strict=True):
        np.testing.assert_array_equal(one.nulls["fresh"].values, two.nulls["fresh"].values)
    last, before = found.layers[2], found.layers[1]
    assert before.out == pytest.approx(last.observed), "block 1's credit at its output is point 2's, served by B_1"
    correlation = np.corrcoef(before.nulls["fresh"].values, last.nulls["fresh"].values)[0, 1]
    assert abs(correlation) > 0.3, "their nulls are drawn together"


def test_the_corrected_p_values_are_those_of_the_reference_null_in_whatever_order_nulls_are_drawn() -> None:
    """They used to be the first null's, which a user's null can be."""
    net = make_network(SnapshotConfig(width=8, depth=2, w2_std=0.3), digits(), 1)
    x, y = Batches(digits(), 8).test(50)
    feedback = [torch.randn(8, 10, generator=torch.Generator().manual_seed(n)) for n in range(2)]
    found = calibrate(net, feedback, x, y, draws=50, nulls=("samples", REFERENCE))
    assert [layer.p_holm for layer in found.layers] == pytest.approx(
        holm([layer.p[REFERENCE] for layer in found.layers])
    )
    assert [layer.p[REFERENCE] for layer in found.layers] != [layer.p["samples"] for layer in found.layers]
    other = calibrate(net, feedback, x, y, draws=50, nulls=("samples",))
    assert all(np.isnan(layer.p_holm) for layer in other.layers), "no reference, no correction"


def test_a_cosine_is_beyond_permuted_matrices_only_if_it_exceeds_their_upper_tail() -> None:
    """Against the mean of a null, which is 0 for any network, all nulls gave the same verdict."""
    wanted = {"against the mean": "survives matrices with permuted", "against the tail": "is beyond 95 % of matrices"}
    draws = np.random.default_rng(0).normal(0.0, 0.05, (999, 1))
    draws -= draws.mean()
    for cosine, expected in {0.06: Outcome.REFUTED, 0.1: Outcome.SUPPORTED}.items():
        runs = [
            SimpleNamespace(
                arm="penalised",
                seed=seed,
                config={},
                summary={"deep_cosine": cosine + 0.001 * seed, "control_cosine": 1.0, "deep_below_floor": 0.0},
                series={f"null_{name}": RunSeries(np.arange(999), draws, ("deep",)) for name in ("rows", "columns")},
            )
            for seed in range(10)
        ]
        for how, words in wanted.items():
            chosen = [claim for claim in Calibration().claims() if words in claim.name]
            verdicts = decide_claims(chosen, StudyEvidence(runs), lambda _: "registered")  # type: ignore[arg-type]
            assert len(chosen) == 2
            assert {one.outcome for one in verdicts} == {expected if how == "against the tail" else Outcome.SUPPORTED}
        tail = np.sort(draws[:, 0])
        measured = reduce(draws[:, 0], "95th percentile")
        assert tail[int(0.95 * 998)] <= measured <= tail[int(0.95 * 998) + 1]


def test_the_figure_names_nulls_by_their_labels(store: Store) -> None:
    texts = [text.get_text() for text in kymograph.figure("calibration", store).findobj(Text)]
    for name in ("fresh", "rows", "columns"):
        assert any(text.startswith(f"{null_label(name)}\n(n = ") for text in texts)


def test_the_exact_chain_as_feedback_has_cosine_one() -> None:
    """Without terminal LayerNorm the gradient at h_L is e times the head's weights."""
    net = make_network(SnapshotConfig(width=8, depth=2, out_ln=False), digits(), 1)
    x, y = Batches(digits(), 8).test(50)
    chain = net.head.weight.detach().T
    found = calibrate(net, [torch.randn(8, 10, generator=torch.Generator().manual_seed(0)), chain], x, y, 99)
    assert found.layers[2].observed == pytest.approx(1.0, abs=1e-6)
    assert found.layers[2].p["fresh"] == 0.01 and found.layers[2].z > 3


def test_the_command_tells_writes_and_draws(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = next(run for run in store if run.arm == "penalised")
    assert call("calibrate", str(run.directory), "--draws", "99", "-o", str(tmp_path), "--seed", str(run.seed)) == 0
    out = capsys.readouterr().out
    for word in ("training B", "deep mean", "p (Holm)", "positive control", "99 draws"):
        assert word in out
    content = json.loads((tmp_path / "calibration.json").read_text())
    assert content["deep"]["observed"] == pytest.approx(run.summary["deep_cosine"], rel=1e-6)
    assert len(content["layers"][0]["nulls"]["fresh"]["draws"]) == 99
    assert (tmp_path / "calibration.png").stat().st_size > 5000
    assert call("figure", "calibration", "--dir", str(store.root), "-o", str(tmp_path)) == 0


def script_file(path: Path, names: tuple[str, str, str] = ("ln", "w1", "w2")) -> ResidualMLP:
    """Writes a checkpoint as the script does, with its own names for the parts."""
    net = ResidualMLP(1, 8, 10, depth=2, width=8)
    initialise(net, torch.Generator().manual_seed(4))
    renamed = {"embed.1": "embed", "norm.": "out_ln.", "head.": "out_head."}
    state = {}
    for name, tensor in net.state_dict().items():
        if name.startswith("blocks."):
            for old, new in zip(("norm", "w1", "w2"), names, strict=True):
                name = name.replace(f".{old}.", f".{new}.")
        else:
            for old, new in renamed.items():
                name = name.replace(old, new)
        state[name] = tensor
    matrices = [torch.randn(8, 10, generator=torch.Generator().manual_seed(n)) for n in range(2)]
    torch.save({"state_dict": state, "Bs": matrices, "test_acc": 0.36}, path)
    return net


@pytest.mark.parametrize("names", [("ln", "w1", "w2"), ("norm", "fc1", "fc2")])
def test_the_scripts_checkpoint_is_read_whatever_its_layers_are_called(tmp_path: Path, names: tuple) -> None:
    net = script_file(tmp_path / "x.pt", names)
    trained = load(tmp_path / "x.pt")
    x, _ = Batches(digits(), 8).test(5)
    torch.testing.assert_close(trained.net(x), net(x))
    assert trained.accuracy == 0.36 and len(trained.feedback) == 2
    assert call("calibrate", str(tmp_path / "x.pt"), "--data", "digits", "--draws", "19", "-o", str(tmp_path)) == 0


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize(
    "harm", ["code", "plain pickle", "cut", "no Bs", "wrong Bs", "NaN", "no state", "foreign state", "empty", "text"]
)
def test_a_hostile_or_broken_pt_runs_nothing_and_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, recwarn: pytest.WarningsRecorder, harm: str
) -> None:
    path, target = tmp_path / "x.pt", tmp_path / "owned"
    script_file(path)
    content = torch.load(path, weights_only=True)
    if harm == "code":
        torch.save({**content, "extra": Bomb(target)}, path)
    elif harm == "plain pickle":  # by Python's own pickle, in a protocol that torch warns of
        path.write_bytes(pickle.dumps({**content, "extra": Bomb(target)}, protocol=4))
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif harm == "no Bs":
        torch.save({"state_dict": content["state_dict"]}, path)
    elif harm == "wrong Bs":
        torch.save({**content, "Bs": [torch.ones(3, 3)] * 2}, path)
    elif harm == "NaN":
        content["state_dict"]["embed.weight"][0, 0] = float("nan")
        torch.save(content, path)
    elif harm == "no state":
        torch.save([1, 2], path)
    elif harm == "foreign state":
        torch.save({**content, "state_dict": {"a.weight": torch.ones(2, 2)}}, path)
    else:
        path.write_bytes(b"" if harm == "empty" else b"hello")
    before = path.read_bytes()
    capsys.readouterr()
    assert call("calibrate", str(path), "--data", "digits", "-o", str(tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "x.pt" in error and not recwarn.list
    assert not target.exists() and path.read_bytes() == before and not (tmp_path / "out").exists()


def test_a_run_comes_with_the_weights_that_it_started_from(store: Store) -> None:
    run = load(store.runs[0].directory / CHECKPOINT)
    assert run.untrained is not None and run.seed is not None and run.config is not None
    start = make_network(run.config, digits(), run.seed)
    assert all(torch.equal(a, b) for a, b in zip(run.untrained.parameters(), start.parameters(), strict=True))


@pytest.mark.parametrize("harm", ["one bit", "deleted"])
def test_the_network_of_a_run_is_checked_before_it_is_used(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture, harm: str
) -> None:
    run = tmp_path / "run" / store.runs[0].directory.name
    shutil.copytree(store.runs[0].directory, run)
    if harm == "one bit":
        content = bytearray((run / CHECKPOINT).read_bytes())
        content[-100] ^= 1
        (run / CHECKPOINT).write_bytes(content)
    else:
        (run / CHECKPOINT).unlink()
    for path in (run, run / CHECKPOINT):
        capsys.readouterr()
        assert call("calibrate", str(path), "--images", "8", "--draws", "19", "-o", str(tmp_path / "out")) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and CHECKPOINT in error and "delete" in error
        with pytest.raises(KymographError, match=CHECKPOINT):
            kymograph.audit(path, images=8)
    with pytest.raises(KymographError, match="not the network of a run"):
        tensors, facts = checkpoint.unpack_network(store.runs[0].directory / CHECKPOINT)
        (tmp_path / "x.safetensors").write_bytes(
            checkpoint.pack_network(tensors, {**facts, "network": {**facts["network"], "width": 10**6, "depth": 10**6}})
        )
        load(tmp_path / "x.safetensors")


@pytest.mark.parametrize("harm", ["cut", "foreign", "absent", "no feedback"])
def test_a_broken_checkpoint_of_ours_gets_one_sentence(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture, harm: str
) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes((store.runs[0].directory / CHECKPOINT).read_bytes())
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-50])
    elif harm == "foreign":
        path.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ")
    elif harm == "absent":
        path.unlink()
    else:
        bp = kymograph.run(
            "snapshot",
            seeds=[1],
            arms=["resmlp/bp"],
            out=tmp_path,
            quiet=True,
            engine="serial",
            epochs=1,
            width=8,
            depth=2,
        )
        path.write_bytes((bp.runs[0].directory / CHECKPOINT).read_bytes())
    capsys.readouterr()
    assert call("calibrate", str(path), "-o", str(tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "c.safetensors" in error and not (tmp_path / "out").exists()
