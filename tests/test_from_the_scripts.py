"""The page for users of the research scripts: its commands work, its answers are given, and nothing is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from kymograph_studies.scripts.flags import SCRIPT_FLAGS
from tests.cli.command import call
from tests.test_docs import ROOT, blocks, do, follow, script_logs, workspace

__all__ = ["workspace"]  # a fixture

PAGE = ROOT / "docs" / "from-the-scripts.md"
CHECKPOINT = "results/dfa_pen_short/dfa_pen_lam0.01_s42.pt"
FLAGS = {  # every add_argument of the scripts
    "001": ("--output_dir", "--epochs", "--lr", "--wd", "--seed", "--depth", "--d_hidden", "--log_every",
            "--no_residual_add", "--w2_std", "--random_targets", "--skip_bp"),
    "002": ("--ckpt", "--n_fresh"),
}  # fmt: skip
CONSTANTS = {
    "000": ("SEED", "vocab_size", "embedding_dim", "n_samples", "n_rare", "rare_ratio", "n_epochs", "clip_grad",
            "max_norm", "lr=", "track_every", "init_weights"),
    "003": ("NUM_LAYERS", "HIDDEN_DIM", "NUM_SAMPLES", "TRAINING_STEPS", "LEARNING_RATE", "BATCH_SIZE"),
}  # fmt: skip
FILES = {
    "000": ("final_comparison.png",),
    "001": ("snapshot_evolution_s42.json",),
    "003": ("results.json", "training_loss.png", "gradient_magnitude.png", "activation_mean.png", "activation_std.png"),
    "004": ("figure_snapshot_resmlp.pdf", "figure_snapshot_vit.pdf", "snapshot_no_outln_v1", "snapshot_vit_s"),
}
PRINTED = {  # what the scripts print, shortened to what stays the same
    "000": ("Dataset:", "Training WITHOUT clipping", "plot saved to", "[PREDICTION 2]", "[PREDICTION 4]", "[STABILITY]",
            "Weight Norm Std", "Max Weight Change", "[GRADIENT]", "Max Gradient Norm", "Clipping Ratio", "Verdict:"),
    "001": ("device=", "eval buffer", "[BP] Ep 0", "[BP] Ep", "[DFA] Ep", "gamma_dfa", "Saved"),
    "002": ("Loading", "Test acc", "cos_mean=", "layer-mean", "deep-layer mean (l1-l4)", "fresh #0", "mean ± std",
            "fresh-Bs deep-layer mean", "INTERPRETATION"),
    "003": ("[Config]", "Data shape", "X range", "parameters", "Step 100/500, Loss", "Final loss", "Final Loss",
            "Gradient norm range", "[Plot] Saved", "Results saved to"),
    "004": ("Saved", "No ViT snapshot JSONs found"),
}  # fmt: skip


def sections() -> dict[str, str]:
    """Returns the text about each script."""
    return dict(re.findall(r"^## Script (\d+):[^\n]*\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def inline_commands() -> list[str]:
    """Returns the commands in the page's text and tables, without those that hold a placeholder such as FILE."""
    text = re.sub(r"^```.*?^```", "", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"`(kymograph \w+ [^`]+)`", text)
    return [command for command in dict.fromkeys(found) if not re.search(r"\b[A-Z]{3,}\b", command)]


def write_checkpoint(path: Path, width: int = 8, blocks: int = 4) -> None:
    """Writes a network as the script's training left it, for images of CIFAR-10."""
    shapes = {"embed.weight": (width, 3072), "embed.bias": (width,), "out_ln.weight": (width,), "out_ln.bias": (width,),
              "out_head.weight": (10, width), "out_head.bias": (10,)}  # fmt: skip
    inside = {"ln.weight": (width,), "ln.bias": (width,), "w1.weight": (width, width), "w1.bias": (width,),
              "w2.weight": (width, width), "w2.bias": (width,)}  # fmt: skip
    shapes |= {f"blocks.{number}.{part}": shape for number in range(blocks) for part, shape in inside.items()}
    state = {name: torch.randn(shape) for name, shape in shapes.items()}
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": state, "Bs": [torch.randn(width, 10) for _ in range(blocks)], "test_acc": 0.36}, path)


@pytest.mark.slow
@pytest.mark.usefixtures("workspace")
def test_every_command_of_the_page_works(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    script_logs(tmp_path)
    write_checkpoint(tmp_path / CHECKPOINT)
    follow(blocks(PAGE), tmp_path)
    printed = capsys.readouterr().out
    assert re.search(r"\[DFA\] Ep 1: \|\|h_L\|\|=\S+e\S+ \|\|g_2\|\|=\S+ acc=0\.\d{4} gamma_dfa=-?0\.\d{4}", printed)
    assert "Step 0/6, Loss: 0." in printed and re.search(r"Gradient norm range: \[\S+e-\d+, \S+\]", printed)
    for row in ("mean of all", "deep mean", "fresh B at single deep points, as in the script:", "test accuracy 0.3600"):
        assert row in printed
    commands = inline_commands()
    assert len(commands) > 10
    for command in commands:
        do(command, tmp_path)


def habits_of_the_page() -> list[tuple[str, str]]:
    """Returns what is typed by habit, and the answer."""
    table = PAGE.read_text().split("## Flags typed by habit")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \| (.*) \|$", table, re.MULTILINE)


@pytest.mark.parametrize(("typed", "answer"), habits_of_the_page())
def test_a_flag_typed_by_habit_is_answered_as_the_page_says(
    typed: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*shlex.split(typed)) == 2
    assert capsys.readouterr().err == f"kymograph: {answer}\n"
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_the_page_has_every_flag_that_is_answered() -> None:
    shown = {word for typed, _ in habits_of_the_page() for word in typed.split() if word.startswith("--")}
    assert shown == {known.flag for known in SCRIPT_FLAGS}


@pytest.mark.parametrize("listed", [FLAGS, CONSTANTS, FILES, PRINTED], ids=["flags", "constants", "files", "printed"])
def test_the_page_has_all_that_the_scripts_have(listed: dict[str, tuple[str, ...]]) -> None:
    texts = sections()
    assert sorted(texts) == ["000", "001", "002", "003", "004"]
    for script, names in listed.items():
        assert [name for name in names if name not in texts[script]] == [], script


def test_every_option_that_the_page_gives_for_a_constant_or_flag_exists(capsys: pytest.CaptureFixture) -> None:
    helps = {"000": ("run", "clipping"), "001": ("run", "snapshot"), "002": ("calibrate",), "003": ("run", "depth")}
    for script, words in helps.items():
        assert call(*words, "--help") == 0
        known = set(re.findall(r"--[a-z][a-z0-9-]*", capsys.readouterr().out))
        rows = [line.strip("| ").split(" | ") for line in sections()[script].splitlines() if line.startswith("| ")]
        spans = [span for row in rows for span in re.findall(r"`(--[^`]*)`", row[-1])]
        named = {option for span in spans for option in re.findall(r"--[\w-]+", span)}
        assert len(named) >= 3 and named - known <= {"--skip_bp"}, script  # the script's own, in a remark


def test_both_spellings_of_an_option_work(tmp_path: Path) -> None:
    words = ("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", "--epochs", "1", "--engine", "serial")
    for samples, name in (("--n_samples", "a"), ("--n-samples", "b")):
        assert call(*words, samples, "60", "--n_rare=3", "--quiet", "--dir", str(tmp_path / name)) == 0
    names = [[path.name for path in (tmp_path / name / "clipping").glob("*-s1-*")] for name in "ab"]
    assert names[0] == names[1] != []
