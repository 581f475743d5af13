"""Runs and verdicts made by hand, from which the tests of the page build pages, and a parser of the pages."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.verdict import Checked, Outcome, Point, Verdict, Verdicts
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record

NOW = "2030-01-02 03:04:05 UTC"
HOSTILE_CLAIM = "<script>alert(1)</script>"
HOSTILE_ARM = "</script><img src=x onerror=alert(2)>"
PROVENANCE = {"versions": {"python": "3.11", "torch": "2.13"}, "code": "abc", "device": "cpu",
              "hardware": {"processor": "one & only"}, "stack": {"index": 0}}  # fmt: skip


def make_runs(
    root: Path,
    study: str = "own",
    arms: Sequence[str] = ("calm", "wild"),
    seeds: Sequence[int] = (42, 123, 456),
    steps: int = 12,
    sites: int = 4,
    config: Mapping[str, float] | None = None,
    summary: Mapping[str, float | bool | str | None] | None = None,
) -> Store:
    """Stores runs with a plain series, a positive one and a signed one along depth; returns all runs below ``root``."""
    for index, arm in enumerate(arms):
        for seed in seeds:
            draw = np.random.default_rng([index, seed])
            time = np.arange(steps)
            names = tuple(f"h_{site}" for site in range(sites))
            growth = np.exp(0.05 * (index + 1) * time[:, None] + 0.3 * np.arange(sites) + 0.1 * draw.normal(size=sites))
            series = {
                "loss": RunSeries(time, np.exp(-0.2 * time) + 0.05 * draw.random(steps)),
                "stream": RunSeries(time, growth, names),
                "cosine": RunSeries(time, draw.normal(size=(steps, sites)), names),
            }
            numbers = {"final_loss": float(series["loss"].value[-1]), "finite": True, **(summary or {})}
            spec = RunSpec(study, arm, seed, {"lr": 0.1, **(config or {})}, 1)
            write_record(root, spec, RunResult(series, numbers), PROVENANCE, 0.1)
    return Store.open(root)


BLOCK = ("", ".self_attn.q_proj", ".self_attn.k_proj", ".self_attn.v_proj", ".self_attn.o_proj", ".mlp.gate_proj",
         ".mlp.up_proj", ".mlp.down_proj", ".mlp.drop", ".norm")  # fmt: skip


def llama_sites(blocks: int) -> tuple[str, ...]:
    """Returns the layers of a Transformer, of which `drop` never runs."""
    inside = [f"model.layers.{block}{part}" for block in range(blocks) for part in BLOCK]
    return ("model.embed_tokens", *inside, "model.norm", "lm_head")


def make_networks(
    root: Path,
    arms: Mapping[str, Sequence[str]],
    seeds: int = 2,
    steps: int = 20,
    quantities: Sequence[str] = ("output_norm", "output_gradient_norm"),
    study: str = "net",
) -> Store:
    """Stores runs with quantities at the sites of every arm, over decades; those of layers called `drop` never ran.

    Of gradients, `v_proj` of block 1 has exactly 0 everywhere and `k_proj` of block 2 has none.
    """
    for arm, sites in arms.items():
        for seed in range(seeds):
            draw = np.random.default_rng([len(sites), seed])
            series = {}
            for index, quantity in enumerate(quantities):
                scale = np.geomspace(1.0, 1e3, len(sites)) * 10.0**-index
                values = scale * np.exp(0.3 * draw.normal(size=(steps, len(sites))))
                for column, site in enumerate(sites):
                    if site.endswith(".drop") or ("gradient" in quantity and "2.self_attn.k_proj" in site):
                        values[:, column] = np.nan
                    elif "gradient" in quantity and "1.self_attn.v_proj" in site:
                        values[:, column] = 0.0
                series[quantity] = RunSeries(np.arange(steps), values, tuple(sites))
            write_record(root, RunSpec(study, arm, seed, {}, 1), RunResult(series, {}), {}, 0.1)
    return Store.open(root)


def add_failure(root: Path, reason: str) -> Store:
    """Stores a failed run with that reason."""
    write_failure(root, RunSpec("own", "calm", 99, {"lr": 0.1}, 1), reason, PROVENANCE)
    return Store.open(root)


def claim(
    name: str, setup: str = "script", study: str = "own", scale: str = "difference", margin: float = 0.1
) -> Claim:
    """Returns a claim that the wild arm ends higher."""
    left, right = (Side(arm, Measure("final_loss")) for arm in ("wild", "calm"))
    text = f"The wild arm ends higher ({name})."
    return Claim(name, study, text, left, right, "greater", margin, scale, setup=setup, origin="remark 1 & 2")  # type: ignore[arg-type]


def make_verdicts() -> Verdicts:
    """Returns one verdict of each of the five kinds, with everything a verdict can carry among them."""
    seeds = (42, 123, 456, 7, 8, 9, 10, 11, 12, 13)
    points = tuple(Point(seed, 1.5 + 0.01 * i, 1.0, 0.5 + 0.01 * i) for i, seed in enumerate(seeds))
    ratios = tuple(Point(seed, 2.0 + 0.01 * i, 1.0, float(np.log(2.0 + 0.01 * i))) for i, seed in enumerate(seeds))
    checks = (Checked("it was trained", True, "12 steps in every seed"), Checked("it converged", False, "loss 0.9"))
    return Verdicts(
        (
            Verdict(claim("rises"), Outcome.SUPPORTED, "the interval lies above the margin", "registered", points,
                    checks[:1], ("seed 14 is missing",), 0.545, (0.52, 0.57), (0.525, 0.565), (0.521, 0.569), 0.002,
                    0.00001, 0.00195, 5.1, (0.97, 0.8, 0.99)),
            Verdict(claim("doubles", scale="log ratio", margin=1.2), Outcome.REFUTED, "the ratio is the other way",
                    "post hoc", ratios, effect=2.05, interval=(1.9, 2.2), p=0.9),
            Verdict(claim("same", "repaired"), Outcome.EQUIVALENT, "within the margin", "changed after runs existed",
                    points[:3], effect=0.01, interval=(-0.05, 0.05), equivalence_interval=(-0.04, 0.04),
                    equivalence_level=0.9, p=0.7),
            Verdict(claim("perhaps", "own"), Outcome.INCONCLUSIVE, "too few seeds", "registered", points[:2],
                    effect=0.2, interval=(-3.0, 3.4), p=0.4, seeds_needed=1234),
            Verdict(claim(HOSTILE_CLAIM, study="other"), Outcome.INVALID, HOSTILE_ARM, "registered", (), checks,
                    (HOSTILE_CLAIM,)),
        )
    )  # fmt: skip


def store_of(root: Path, values: Mapping[int, np.ndarray], arm: str = "arm") -> Store:
    """Stores one arm whose series ``x`` is given by seed, with two sites where it has two axes."""
    for seed, series in values.items():
        sites = ("h_0", "h_1") if series.ndim == 2 else None
        result = RunResult({"x": RunSeries(np.arange(len(series)), series, sites)}, {})
        write_record(root, RunSpec("own", arm, seed, {}, 1), result, {}, 0.1)
    return Store.open(root)


class Outline(HTMLParser):
    """Every element with its attributes, the text of the page, and what scripts and styles hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.raw: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.raw.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            self.raw[-1] = (self._inside, self.raw[-1][1] + data)
        else:
            self.text += data

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]

    def code(self) -> list[str]:
        """Returns what scripts and styles hold that is no data."""
        return [text for _, text in self.raw if not text.startswith(("{", "["))]

    def charts(self) -> list[dict]:
        return [json.loads(text) for tag, text in self.raw if tag == "script" and text.startswith('{"kind"')]


def arm_in(chart: Mapping, name: str) -> dict:
    """Returns what a chart of lines holds about one arm."""
    return next(arm for arm in chart["arms"] if arm["name"] == name)


def environment() -> dict[str, str]:
    """Returns the environment of a subprocess that can import the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def declaring(store: Store, declarations: Mapping[str, Declaration], **parts: Any) -> Store:
    """Returns the store as if its directory held these declarations, and these other ``parts``."""
    assert store.root is not None
    directory = Directory(store.root)
    vars(directory).update(declarations=declarations, **parts)
    return Store(store.runs, store.root, directory)
