"""A part of every kind is one new file and no edit elsewhere: in a user's package, and in this tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kymograph

PARTS: dict[str, tuple[str, str, str]] = {
    # kind: entry-point group, name, module
    "study": ("kymograph.studies", "waiting", '''
"""A study."""
from dataclasses import dataclass

import numpy as np

from kymograph import Arm, RunResult, RunSeries, SeriesDisplay, Study

PART = {"about": "How long does it take?"}


@dataclass(frozen=True)
class WaitingConfig:
    """The settings."""

    minutes: int = 3
    """How long."""


class Waiting(Study[WaitingConfig]):
    """Waits."""

    name = "waiting"
    question = "How long does it take?"
    config_type = WaitingConfig
    headlines = {"end": "the end"}
    series = [SeriesDisplay("queue", "The queue", "people", forms=("curves", "sentence"))]

    def arms(self):
        """Two arms."""
        return [Arm("short", default=True), Arm("long", default=True)]

    def train(self, specs, work):
        """Counts."""
        return [
            RunResult({"queue": RunSeries(np.arange(3), np.arange(3.0) + spec.seed)}, {"end": spec.seed})
            for spec in specs
        ]


STUDY = Waiting
'''),
    "rule": ("kymograph.rules", "half-bp", '''
"""Backpropagation at half its length."""
from kymograph_studies.rules.backprop import Backprop

PART = {"about": "half of backpropagation"}


class HalfBackprop(Backprop):
    """Half the exact gradient."""

    def backward(self, x, y, *, accumulate=True):
        """Halves what backpropagation fills in."""
        credit = super().backward(x, y, accumulate=False)
        for parameter in self.net.parameters():
            parameter.grad.mul_(0.5)
        return credit


def build(net, setup):
    """Returns the rule."""
    return HalfBackprop(net, setup.loss)
'''),
    "data set": ("kymograph.data", "stripes", '''
"""Stripes of seven kinds."""
import torch

from kymograph import generator
from kymograph_studies.data.images import ImageTask

PART = {"about": "stripes", "training_images": 40, "epochs": 2}


def load(directory=None):
    """Returns 40 small images of 7 classes."""
    draw = generator(0, "stripes")
    images = torch.randint(0, 256, (60, 1, 4, 4), generator=draw, dtype=torch.uint8)
    labels = torch.randint(0, 7, (60,), generator=draw)
    return ImageTask("stripes", images[:40], labels[:40], images[40:], labels[40:], (0.5,), (0.3,), 7, augment=False)
'''),
    "model": ("kymograph.models", "tiny", '''
"""A tiny network."""
from torch import nn

from kymograph_studies.models.cut import cut

PART = {"about": "a tiny network", "settings": ()}


def build(channels, size, classes, *, depth, width):
    """Returns linear layers with ReLUs between them."""
    layers = [nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, width))]
    layers += [nn.Sequential(nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)]
    return cut(nn.Sequential(*layers, nn.Linear(width, classes)))
'''),
    "quantity": ("kymograph.quantities", "output_peak", '''
"""The largest entry of an output."""

PART = {"about": "largest absolute entry of a layer's output", "unit": "units of the output", "at": "output",
        "together": "max"}


def output_peak(output):
    """Returns the largest absolute entry."""
    return output.abs().max()
'''),
    "figure": ("kymograph.figures", "blank", '''
"""A blank figure."""
from kymograph._pictures.canvas import sheet, styled

PART = {"about": "nothing, on purpose"}


@styled
def draw(store, declaration):
    """Draws the study's name."""
    figure = sheet((3, 2))
    figure.subplots().set_title(declaration.name)
    return figure
'''),
    "engine": ("kymograph.engines", "backwards", '''
"""This process, the last stack first."""
from kymograph._sweep.engines.local import SerialEngine

PART = {"about": "this process, the last stack first"}


class Engine(SerialEngine):
    """Computes the last order first."""

    def run(self, orders, follower):
        """Reverses the orders."""
        print("backwards")
        return super().run(list(reversed(orders)), follower)
'''),
    "verb": ("kymograph.verbs", "greet", '''
"""A greeting."""

PART = {"about": "say hello", "usage": "greet NAME"}


def main(words):
    """Greets."""
    print("hello", *words)
    return 0
'''),
    "null": ("kymograph.nulls", "zeros", '''
"""Nothing at all."""
import torch

PART = {"label": "zeros", "about": "no cosine at all"}


def draw(pairs, matrices, serving, draws, seed):
    """Returns zeros."""
    return torch.zeros(len(pairs), draws, dtype=torch.float64)
'''),
    "format": ("kymograph.formats", "count", '''
"""The number of runs."""

PART = {"about": "the number of runs, a text file"}


def write(store, path):
    """Writes how many runs there are."""
    path.write_text(str(len(store)))
'''),
    "panel": ("kymograph.panels", "sentence", '''
"""A sentence instead of a picture."""
from markupsafe import Markup

from kymograph._pictures.report_page.charts import Chart, Panel, table_data

PART = {"about": "a sentence", "order": 99}


def draw(request):
    """Returns a chart that says how many runs there are."""
    picture = Markup("<p>a panel of mine</p>")
    return Chart(request.id, "Mine", (Panel("", picture),), "in words", table_data(("n",), [(1,)]))
'''),
}  # fmt: skip
ROOT = Path(kymograph.__file__).parents[1]


FUNCTIONS = ("measure", "quantity")
"""Kinds whose module has a function of its own name."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's package with a part of every kind, installed as pip installs one."""
    directory = tmp_path_factory.mktemp("site")
    package = directory / "parts_of_a_user"
    package.mkdir()
    (package / "__init__.py").write_text("")
    groups: dict[str, list[str]] = {}
    for kind, (group, name, source) in PARTS.items():
        module = name if kind in FUNCTIONS else kind.replace(" ", "_") + "_" + name.replace("-", "_")
        (package / f"{module}.py").write_text(source.lstrip())
        groups.setdefault(group, []).append(f"{name} = parts_of_a_user.{module}")
    information = directory / "parts_of_a_user-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-a-user\nVersion: 1\n")
    text = "\n".join(f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items())
    (information / "entry_points.txt").write_text(text + "\n")
    return directory


def run(code: str, path: Path, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


SESSION = '''
import contextlib, io, json
from pathlib import Path
from kymograph._cli.main import main

def kymograph(line):
    """Returns what a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main(line.split())
        except SystemExit as end:
            assert not end.code, line
    return out.getvalue()

found = {}
found["verb"] = "say hello" in kymograph("--help") and kymograph("greet you") == "hello you\\n"
found["study"] = "How long does it take?" in kymograph("studies")
found["study"] &= "4 runs" in kymograph("run waiting --seeds 1 2 --workers 1")
kymograph("report runs -o report.html")
found["panel"] = "a panel of mine" in Path("report.html").read_text()
kymograph("figure waiting-blank --dir runs -o figures")
found["figure"] = Path("figures/waiting-blank.png").exists() and "STUDY-blank" in kymograph("figure --list")
kymograph("export runs --to count --output count.txt")
found["format"] = Path("count.txt").read_text() == "4"
tiny = "--depth 2 --width 8 --seeds 1 --epochs 1 --dir images --batch-size 20"
found["engine"] = "backwards" in kymograph(
    "run snapshot --arms resmlp/bp --data stripes --model tiny --engine backwards " + tiny
)
from kymograph._runs.store import Store
(mine,) = Store.open("images")
found["data set"] = mine.config["data"] == "stripes" and mine.summary["classes"] == 7
found["model"] = mine.config["model"] == "tiny" and mine.summary["parameters"] == 343
kymograph("run calibration --arms vanilla --data stripes --draws 19 --images 10 " + tiny)
run = Store.open("images").select("calibration").runs[0]
found["null"] = "null_zeros" in run.series
import torch
from kymograph import rules
from kymograph_studies.models import draw_model
net = draw_model("tiny", 1, 4, 7, torch.Generator().manual_seed(0), depth=1, width=4)
x, y = torch.randn(5, 1, 4, 4), torch.randint(0, 7, (5,))
rules.make("bp", net).backward(x, y, accumulate=False)
whole = [p.grad.clone() for p in net.parameters()]
rules.make("half-bp", net).backward(x, y, accumulate=False)
found["rule"] = all(torch.allclose(2 * p.grad, g) for p, g in zip(net.parameters(), whole))
net = torch.nn.Linear(1, 1)
from kymograph._probes.probe import Probe
probe = Probe(net, level=["output_peak"], every=1)
with probe, probe.step(0):
    net(torch.ones(2, 1)).sum().backward()
found["quantity"] = probe.series()["output_peak"].value.shape == (1, 1)
print(json.dumps(found))
'''  # fmt: skip


@pytest.mark.slow
def test_a_users_package_adds_a_part_of_every_kind(installed: Path, tmp_path: Path) -> None:
    found = json.loads(run(SESSION, installed, tmp_path).splitlines()[-1])
    assert found == dict.fromkeys(PARTS, True)


HOMES = {
    # kind: the folder of its own parts in this tree; a study is found by its entry point alone
    "rule": "kymograph_studies/rules", "data set": "kymograph_studies/data", "model": "kymograph_studies/models",
    "null": "kymograph_studies/analysis", "quantity": "kymograph/_probes/quantities", "figure": "kymograph/_pictures",
    "engine": "kymograph/_sweep/engines", "verb": "kymograph/_cli/verbs", "format": "kymograph/_runs/formats",
    "panel": "kymograph/_pictures/report_page",
}  # fmt: skip


def test_a_new_file_in_the_tree_is_found(tmp_path: Path) -> None:
    assert HOMES.keys() == PARTS.keys() - {"study"}
    for package in ("kymograph", "kymograph_studies"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, home in HOMES.items():
        _, name, source = PARTS[kind]
        module = name if kind in FUNCTIONS else name.replace("-", "_")
        (tmp_path / home / f"{module}.py").write_text(source.lstrip())
    groups = {kind: (PARTS[kind][0], home.replace("/", "."), PARTS[kind][1]) for kind, home in HOMES.items()}
    code = f"""
import json
import kymograph
from kymograph._registry import Registry
assert kymograph.__file__.startswith({str(tmp_path)!r})
found = {{kind: name.replace("_", "-") in [n.replace("_", "-") for n in Registry(group, home).names()]
         for kind, (group, home, name) in {groups!r}.items()}}
print(json.dumps(found))
"""
    assert json.loads(run(code, tmp_path, tmp_path)) == dict.fromkeys(HOMES, True)
