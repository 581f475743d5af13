"""The snapshot scripts' logs: written from stored runs, read back, drawn, and refused if they do not fit together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph._pictures.canvas import LabFigure
from kymograph._pictures.figures import figure_from_files
from kymograph._runs.store import Store
from kymograph_studies.scripts.logs import read_logs
from tests.cli.command import call
from tests.science.test_snapshot import QUICK


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two seeds of two networks' plain arms, small and short."""
    out, arms = tmp_path_factory.mktemp("scripts"), ["resmlp/bp", "resmlp/dfa", "vit/*"]
    return kymograph.run("snapshot", seeds=[42, 123], arms=arms, out=out, quiet=True, engine="serial", **QUICK)


@pytest.mark.parametrize(
    ("model", "figure"), [("resmlp", "snapshot-resmlp"), pytest.param("vit", "snapshot-vit", marks=pytest.mark.slow)]
)
def test_the_scripts_logs_are_written_read_and_drawn(store: Store, tmp_path: Path, model: str, figure: str) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for seed in (42, 123):
        output = logs / f"snapshot_s{seed}.json"
        words = ("--to", "script", "--output", str(output), "--seed", str(seed))
        assert call("export", str(store.root), *words, "--arms", f"{model}/bp", f"{model}/dfa") == 0
        content = json.loads(output.read_text())
        assert {"config", "depth", "d_hidden", "num_classes", "bp_log", "dfa_log"} == set(content)
        assert content["num_classes"] == 10 and content["depth"] == 2
        entry = content["dfa_log"][-1]
        norms = {"resmlp": "hidden_norms", "vit": "hidden_norms_cls"}[model]
        gradient = {"resmlp": "bp_grad_norms_per_sample_med", "vit": "bp_grad_per_sample_l2_med"}[model]
        assert set(entry) == {norms, gradient, "bp_grad_norms_F", "gamma_dfa", "acc_eval", "loss_eval", "epoch"}
        run = next(run for run in store if run.arm == f"{model}/dfa" and run.seed == seed)
        assert entry[norms] == run.series["stream_norm"].value[-1].tolist()
        np.testing.assert_allclose(entry[gradient], run.series["stream_grad"].value[-1] / 360)
    for source in ([str(path) for path in sorted(logs.glob("*.json"))], [str(logs)]):
        assert call("figure", figure, "--dir", *source, "-o", str(tmp_path / "out")) == 0
        drawn = tmp_path / "out" / f"{figure.replace('snapshot-', 'figure_snapshot_')}.pdf"
        assert drawn.stat().st_size > 5000
        drawn.unlink()
    from_logs = {(t.rule, t.seed): t.hidden for t in read_logs([logs])}
    run = next(run for run in store if run.arm == f"{model}/bp" and run.seed == 123)
    np.testing.assert_array_equal(from_logs["BP", 123], run.series["stream_norm"].value)


def test_which_logs_lack_the_layernorm_is_told_by_setting_or_name(tmp_path: Path) -> None:
    entry = {"hidden_norms": [1.0, 2.0, 3.0], "bp_grad_norms_per_sample_med": [1.0, 1.0, 1.0], "epoch": 0}
    for name, config, expected in (
        ("snapshot_evolution_s7.json", {}, (7, True)),
        ("snapshot_noLN_s123.json", {}, (123, False)),
        ("x.json", {"seed": 5, "out_ln": False}, (5, False)),
    ):
        (tmp_path / name).write_text(json.dumps({"config": config, "bp_log": None, "dfa_log": [entry]}))
        (trajectory,) = read_logs([tmp_path / name])
        assert (trajectory.seed, trajectory.out_ln) == expected


ENTRY = {"hidden_norms": [1.0, 2.0], "bp_grad_norms_per_sample_med": [1.0, 1.0], "epoch": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut off or not JSON"),
        (b'{"bp_log": [', "cut off or not JSON"),
        (b"\x80\x04\x95", "not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "not a log"),
        (b"{}", "not a log"),
        (b'{"bp_log": 3}', "not a log"),
        (json.dumps({"dfa_log": [{**ENTRY, "hidden_norms": [1.0, float("nan")]}]}).encode(), "not a finite number"),
        (json.dumps({"dfa_log": [{**ENTRY, "hidden_norms": ["a", 1]}]}).encode(), "not a finite number"),
        (json.dumps({"dfa_log": [{**ENTRY, "hidden_norms": [1.0, 10**400]}]}).encode(), "300 digits"),
        (json.dumps({"dfa_log": [{**ENTRY, "epoch": 10**400}]}).encode(), "300 digits"),
        (json.dumps({"dfa_log": [ENTRY, {**ENTRY, "hidden_norms": [1.0]}]}).encode(), "same length"),
        (json.dumps({"dfa_log": [{**ENTRY, "hidden_norms": {}}]}).encode(), "list of the same length"),
        (json.dumps({"dfa_log": [{"epoch": 1}]}).encode(), "has neither"),
        (json.dumps({"dfa_log": [{**ENTRY, "epoch": "one"}]}).encode(), "no epoch"),
    ],
)
def test_a_foreign_log_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, content: bytes, message: str
) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(content)
    assert call("figure", "snapshot-resmlp", "--dir", str(path), "-o", str(tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert message in error and "log.json" in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_logs_and_rules_are_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("figure", "snapshot-resmlp", "--dir", str(tmp_path / "a.json"), str(tmp_path / "b.json")) == 1
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "only.json").write_text(json.dumps({"dfa_log": [ENTRY]}))
    assert call("figure", "snapshot-resmlp", "--dir", str(tmp_path)) == 1
    assert "resmlp/bp" in capsys.readouterr().err
    os.truncate(tmp_path / "only.json", 3 * 2**30)
    assert call("figure", "snapshot-vit", "--dir", str(tmp_path / "only.json")) == 1
    assert "the limit of 268,435,456" in capsys.readouterr().err


def log(directory: Path, name: str, points: int = 3, key: str = "hidden_norms", **config: object) -> str:
    """Writes a script's log of BP and DFA and returns its path."""
    gradient = "bp_grad_norms_per_sample_med" if key == "hidden_norms" else "bp_grad_per_sample_l2_med"
    rows = [{key: [1.0 + epoch] * points, gradient: [1.0] * points, "epoch": epoch} for epoch in range(3)]
    path = directory / f"{name}.json"
    path.write_text(json.dumps({"config": config, "bp_log": rows, "dfa_log": rows}))
    return str(path)


def test_logs_that_are_no_seeds_of_one_set_up_are_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def refused(figure: str, *logs: str) -> str:
        assert call("figure", figure, "--dir", *logs, "-o", str(tmp_path / "out")) == 1
        return capsys.readouterr().err

    plain = log(tmp_path, "plain", seed=42, epochs=2)
    twin = log(tmp_path, "twin", seed=42, epochs=2)
    assert "both contain BP at seed 42" in refused("snapshot-resmlp", plain, twin)
    assert "is given twice" in refused("snapshot-resmlp", plain, str(tmp_path / "." / "plain.json"))
    longer = log(tmp_path, "longer", seed=123, epochs=9)
    assert "differ in epochs (2 and 9)" in refused("snapshot-resmlp", plain, longer)
    bare = log(tmp_path, "first")
    assert "differ in epochs (2 and 9)" in refused("snapshot-resmlp", bare, plain, longer), "though the first is silent"
    sgd = log(tmp_path, "sgd", seed=123, epochs=2, dfa={"optimizer": "sgd"})
    adam = log(tmp_path, "adam", seed=456, epochs=2, dfa={"optimizer": "adamw"})
    assert "differ in optimizer (adamw and sgd)" in refused("snapshot-resmlp", adam, sgd)
    bare = log(tmp_path, "bare", seed=123, epochs=2, no_residual_add=True)
    straight = log(tmp_path, "straight", seed=456, epochs=2, no_residual_add=False)
    assert "differ in no_residual_add (True and False)" in refused("snapshot-resmlp", bare, straight)
    assert "of the network resmlp, but this figure is of vit" in refused("snapshot-vit", plain)
    vit = log(tmp_path, "vit", key="hidden_norms_cls")
    assert "of the network vit, but this figure is of resmlp" in refused("snapshot-resmlp", vit)
    without = log(tmp_path, "vit_no_out_ln", key="hidden_norms_cls")
    assert "with and without terminal LayerNorm" in refused("snapshot-vit", vit, without)
    assert "has no h_2" in refused("snapshot-resmlp", log(tmp_path, "one_block", points=2))
    assert "choose among stored runs" in refused("snapshot-resmlp", plain, "--arms", "resmlp/bp")
    for figure, logs in (("snapshot-resmlp", [plain, log(tmp_path, "s", seed=5, epochs=2), log(tmp_path, "noLN")]),
                         ("snapshot-vit", [without]),
                         ("snapshot-vit", [vit, log(tmp_path, "nameless", key="hidden_norms_cls")])):  # fmt: skip
        drawn = figure_from_files(figure, logs)
        assert isinstance(drawn, LabFigure) and drawn.rows


def test_runs_that_are_no_seeds_of_one_set_up_are_neither_exported_nor_averaged(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    arms = ["resmlp/bp", "resmlp/dfa"]
    for epochs, width in ((1, 8), (2, 4)):
        kymograph.run(
            "snapshot", seeds=[42], arms=arms, out=tmp_path, quiet=True, engine="serial", epochs=epochs, width=width
        )
    output = tmp_path / "log.json"
    words = ("export", str(tmp_path), "--to", "script", "--seed", "42", "--output", str(output))
    assert call(*words, "--arms", *arms) == 1 and "differ in" in capsys.readouterr().err and not output.exists()
    assert call("figure", "snapshot-resmlp", "--dir", str(tmp_path)) == 1 and "differ in" in capsys.readouterr().err
    options = {"arms": ["resmlp/dfa"], "out": tmp_path, "quiet": True, "epochs": 2, "width": 4}
    kymograph.run("snapshot", seeds=[123], penalty=5.0, **options)
    assert call("figure", "snapshot-resmlp", "--dir", str(tmp_path), "--where", "epochs=2") == 1
    assert "differ in penalty (0.0 and 5.0)" in capsys.readouterr().err
    kymograph.run("snapshot", seeds=[456], log_every=2, **options)
    assert call(*words, "--arms", *arms, "--where", "epochs=2") == 0
    chosen = Store.open(tmp_path).where(epochs=2, penalty=0.0)
    assert len(kymograph.figure("snapshot-resmlp", chosen).axes) == 4, "how often one measures is no set-up"
    config = json.loads(output.read_text())["config"]
    assert config["model"] == "resmlp" and config["data"] == "digits" and config["dfa"]["rms"] and config["epochs"] == 2


def test_a_diverged_run_is_exported_with_its_gaps_and_drawn_from_them(tmp_path: Path) -> None:
    kymograph.run(
        "snapshot",
        seeds=[42],
        arms=["resmlp/bp", "resmlp/dfa"],
        out=tmp_path,
        quiet=True,
        engine="serial",
        epochs=2,
        lr=1e30,
    )
    output = tmp_path / "log.json"
    assert call("export", str(tmp_path), "--to", "script", "--seed", "42", "--output", str(output)) == 0
    assert "null" in output.read_text()
    assert any(np.isnan(trajectory.hidden).any() for trajectory in read_logs([output]))
    drawn = figure_from_files("snapshot-resmlp", [str(output)])
    assert isinstance(drawn, LabFigure) and drawn.rows
