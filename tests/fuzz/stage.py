"""One small sample of every file that any verb reads, made once by the program itself and copied for each case."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.spec import RunSpec, slug
from kymograph._sweep.compute import Workplace
from kymograph._sweep.heartbeat import Heartbeat
from kymograph._sweep.orders import Stack
from kymograph._sweep.progress import Progress
from kymograph_studies.models.blocks import initialise
from kymograph_studies.models.feedforward import ResidualMLP
from tests.cli.command import call
from tests.science.data import archive

IMAGES = {"epochs": 2, "depth": 2, "width": 8, "batch_size": 64, "data": "cifar10", "log_every": 1}
RUNNING_COIN = (1, 2, 3)
COIN = '''
from dataclasses import dataclass, replace

import numpy as np

from kymograph import Arm, Claim, RunResult, RunSeries, Study


@dataclass(frozen=True)
class CoinConfig:
    """Settings of a `coin` run."""

    tosses: int = 4
    """How often the coin is tossed."""
    lr: float = 0.1
    """A rate."""
    metal: str = "tin"
    """What it is made of."""
    worn: bool = False
    """Whether it is old."""


class Coin(Study[CoinConfig]):
    """Tosses that need no torch; the arm `cursed` fails."""

    name = "coin"
    question = "Does it land heads?"
    config_type = CoinConfig
    headlines = {"heads": "heads"}

    def arms(self):
        return [Arm("fair", "honest", default=True), Arm("bent", "a bent one", default=True), Arm("cursed", "fails")]

    def train(self, specs, work):
        return [self.toss(spec) for spec in specs]

    def toss(self, spec):
        if spec.arm == "cursed":
            raise ValueError("cursed")
        if not 0 < spec.config.tosses < 10_000:
            raise ValueError("no coin is tossed so often")
        draw = np.random.default_rng([spec.seed, spec.arm == "bent"])
        step = np.arange(spec.config.tosses)
        heads = draw.random(len(step)) + (spec.arm == "bent")
        sites = RunSeries(step, np.stack([heads, -heads], axis=1), ("obverse", "reverse"))
        return RunResult({"heads": RunSeries(step, heads), "sides": sites}, {"heads": float(heads[-1]), "odd": None})

    def claims(self):
        return [replace(Claim.compare("heads", "bent", ">", "fair", scale="difference"), study=self.name)]
'''
LOOP = '''
import os

import torch

import kymograph as ky


@ky.study(question="Does it fall?", arms={"slow": {}, "fast": {"lr": 0.3}})
def loop(run: ky.ActiveRun, *, lr: float = 0.1):
    """Descends a parabola; stopped on request."""
    x = torch.nn.Parameter(torch.randn(3, generator=run.generator("init")))
    optimizer = torch.optim.SGD([x], lr, momentum=0.9)
    run.resumable(x=torch.nn.ParameterList([x]), optimizer=optimizer, every=5)
    for step in run.steps(20):
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
        if step == int(os.environ.get("STOP_AT", "-1")):
            raise KeyboardInterrupt
    return {"loss": loss.item()}
'''
CLAIMS = """[[claim]]
name = "the bent coin lands heads"
study = "coin"
arm = "bent"
against = "fair"
series = "heads"
reduce = "mean"
direction = "greater"
scale = "difference"
margin = 0.1
where = { lr = 0.1 }
[[claim.check]]
text = "it was tossed"
summary = "heads"
least = 0.001
"""
SETTINGS = 'tosses = 3\nmetal = "gold"\nworn = true\narms = ["fair"]\nseeds = [4, 5]\n[grid]\nlr = [0.1, 0.3]\n'


def build(root: Path) -> Path:
    """Makes the samples that need no training below ``root``; returns it.

    coin.py, runs/     a user-defined study and seven of its runs, one of which failed, with their log
    beating/           the same runs, and the heartbeat of a process that computes more of them
    loop.py, stopped/  a study in one function, and the state of a run of it that was interrupted
    ours/, theirs/     CSV files for ``judge --csv``
    claims.toml, settings.toml, log.json, runs.zip
    """
    root.mkdir(parents=True, exist_ok=True)
    (root / "coin.py").write_text(COIN)
    (root / "claims.toml").write_text(CLAIMS)
    (root / "settings.toml").write_text(SETTINGS)
    coin = str(root / "coin.py")
    serial = ("--engine", "serial", "--quiet")
    assert call("run", coin, "--seeds", *map(str, RUNNING_COIN), "--dir", str(root / "runs"), *serial) == 0
    assert call("run", coin, "--seeds", "1", "--arms", "cursed", "--dir", str(root / "runs"), *serial) == 1
    assert call("bundle", str(root / "runs"), "-o", str(root / "runs.zip"), "--study", coin) == 0
    shutil.copytree(root / "runs", root / "beating")
    spec = RunSpec("coin", "fair", 9, {"tosses": 4}, 1)
    with Heartbeat(root / "beating", Stack((spec,), (True,), 4), Progress("", 1, 1, quiet=True)) as heart:
        heart.tick(2)
        (beat,) = (root / "beating/coin/.running").iterdir()
        content = beat.read_bytes()
    beat.parent.mkdir()
    beat.write_bytes(content)
    (root / "loop.py").write_text(LOOP)
    with mock.patch.dict(os.environ, {"STOP_AT": "12"}):
        interrupted = call("run", str(root / "loop.py"), "--seeds", "1", "--arms", "slow", "--dir",
                           str(root / "stopped"), *serial)  # fmt: skip
    assert interrupted == 130 and len(list(root.glob("stopped/loop/*.part/state.safetensors"))) == 1
    row = {"hidden_norms": [1.0, 2.0, 3.0], "bp_grad_norms_per_sample_med": [0.1, 0.2, 0.3]}
    rows = [{"epoch": epoch, **row} for epoch in range(3)]
    (root / "log.json").write_text(json.dumps({"config": {"seed": 42}, "bp_log": rows, "dfa_log": rows}))
    for arm, shift in (("ours", 1.0), ("theirs", 0.0)):
        (root / arm).mkdir()
        rows = [f"{seed},{step},{shift + step + 0.01 * seed:.3f}" for seed in range(6) for step in range(2)]
        (root / arm / "loss.csv").write_text("\n".join(["seed,step,value", *rows]) + "\n")
    return root


def build_networks(root: Path) -> None:
    """Makes the samples that have to do with images below ``root``.

    image/   a network trained on images, with its checkpoint
    half/    a run of the same study that was killed after its first epoch
    cifar/   a tiny CIFAR-10 in both official layouts
    net.pt   a network as the calibration script stores it
    """
    archive.make(root / "cifar", per_batch=16)
    options = ComputeOptions(root / "image", "serial", 1, "cpu", root / "cifar", True)
    done = run_sweep("snapshot", (1,), options, arms=["resmlp/dfa"], fields=IMAGES)
    assert len(done.store.finished) == 1
    half = root / "half"
    study = done.study
    (spec,) = study.specs([1], ["resmlp/dfa"], {**IMAGES, "checkpoint_every": 1})
    (half / slug(study.name)).mkdir(parents=True)
    study.train([study.typed(spec)], Workplace("cpu", Progress("", 1, 1, quiet=True), half, root / "cifar"))
    (part,) = half.glob("*/*.part")
    assert [path.name for path in part.iterdir()] == ["resume.safetensors"]
    script_network(root)


def script_network(root: Path) -> Path:
    """Writes ``net.pt``, a network as the calibration script stores it, into ``root``."""
    net = ResidualMLP(3, 32, 10, depth=2, width=8)
    initialise(net, torch.Generator().manual_seed(4))
    state = {_scripts_name(name): tensor for name, tensor in net.state_dict().items()}
    matrices = [torch.randn(8, 10, generator=torch.Generator().manual_seed(n)) for n in range(2)]
    torch.save({"state_dict": state, "Bs": matrices, "test_acc": 0.36}, root / "net.pt")
    return root / "net.pt"


def _scripts_name(name: str) -> str:
    """Returns what the calibration script calls a tensor of ours."""
    if name.startswith("blocks."):
        return name.replace(".norm.", ".ln.")
    for ours, theirs in (("embed.1", "embed"), ("norm.", "out_ln."), ("head.", "out_head.")):
        name = name.replace(ours, theirs)
    return name


def copy(stage: Path, names: Sequence[str], target: Path) -> None:
    """Copies samples by name into ``target``."""
    for name in names:
        if (stage / name).is_dir():
            shutil.copytree(stage / name, target / name)
        else:
            shutil.copyfile(stage / name, target / name)
