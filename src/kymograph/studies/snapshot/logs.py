"""The JSON logs of the snapshot scripts: written from stored runs, and read back for figures.

A log holds ``bp_log`` and ``dfa_log``, lists of one entry per measured epoch. The residual MLP's entries have
``hidden_norms`` and ``bp_grad_norms_per_sample_med``; ViT-Mini's have ``hidden_norms_cls`` and
``bp_grad_per_sample_l2_med``. Gradients are of the mean loss over the buffer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.store import Store, StoredRun

_HIDDEN = ("hidden_norms", "hidden_norms_cls")
_GRADIENT = ("bp_grad_norms_per_sample_med", "bp_grad_per_sample_l2_med")
_LARGEST_FILE = 256 * 2**20


@dataclass(frozen=True)
class Trajectory:
    """One run's norms over epochs, on the script's scale."""

    rule: str  # "BP" or "DFA"
    seed: int
    out_ln: bool
    epochs: np.ndarray  # (epochs,)
    hidden: np.ndarray  # (epochs, L + 1)
    gradient: np.ndarray  # (epochs, L + 1)


def to_script(store: Store) -> dict[str, Any]:
    """Returns the BP and the DFA run of one seed and one network in the script's layout; BP may be missing."""
    runs = {run.arm: run for run in store.select("snapshot").finished}
    pairs: dict[str, dict[str, StoredRun]] = {}
    for arm, run in runs.items():
        parts = arm.split("/")
        if len(parts) > 1 and parts[1] in ("bp", "dfa"):
            pairs.setdefault("/".join([parts[0], "*", *parts[2:]]), {})[parts[1]] = run
    pairs = {name: pair for name, pair in pairs.items() if "dfa" in pair}
    if len(pairs) != 1:
        found = ", ".join(sorted(pairs)) or "none"
        raise KymographError(f"the script's file holds one network's BP and DFA; choose with --arms (found: {found})")
    (pair,) = pairs.values()
    dfa, bp = pair["dfa"], pair.get("bp")
    config = dfa.config
    return {
        "config": {
            "epochs": config["epochs"],
            "lr": config["lr"],
            "wd": config["wd"],
            "seed": dfa.seed,
            "depth": config["depth"],
            "d_hidden": config["width"],
            "log_every": config["log_every"],
            "no_residual_add": not config["skip"],
            "w2_std": config["w2_std"],
            "random_targets": config["random_targets"],
            "skip_bp": bp is None,
            "out_ln": config["out_ln"],
        },
        "depth": config["depth"],
        "d_hidden": config["width"],
        "num_classes": dfa.summary["classes"],
        "bp_log": None if bp is None else _entries(bp),
        "dfa_log": _entries(dfa),
    }


def _entries(run: StoredRun) -> list[dict[str, Any]]:
    buffer = run.summary["buffer_size"]
    vit = run.config["model"] == "vit"
    series = run.series
    rows = []
    for place, epoch in enumerate(series["stream_norm"].step.tolist()):
        rows.append(
            {
                _HIDDEN[vit]: series["stream_norm"].value[place].tolist(),
                _GRADIENT[vit]: (series["stream_grad"].value[place] / buffer).tolist(),
                "bp_grad_norms_F": (series["stream_grad_F"].value[place] / buffer).tolist(),
                "gamma_dfa": float(series["gamma"].value[place]) if "gamma" in series else None,
                "acc_eval": float(series["acc_eval"].value[place]),
                "loss_eval": float(series["loss_eval"].value[place]),
                "epoch": epoch,
            }
        )
    return rows


def read_logs(paths: Sequence[str | Path]) -> list[Trajectory]:
    """Reads script logs from files, or from every ``*.json`` of a directory; one sentence names a bad one."""
    files: list[Path] = []
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(given.glob("*.json"))
            if not inside:
                raise KymographError(f"there is no log (*.json) in {given}")
            files += inside
        elif given.is_file():
            files.append(given)
        else:
            raise KymographError(f"there is no log {given}")
    return [trajectory for path in files for trajectory in _read(path)]


def _read(path: Path) -> list[Trajectory]:
    foreign = KymographError(f"{path} is not a log of the snapshot script (it needs bp_log or dfa_log)")
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise KymographError(f"{path} is larger than any log of the snapshot script; it was not read")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise KymographError(f"{path} is cut off or not JSON") from None
    if not isinstance(content, dict):
        raise foreign
    config = content.get("config")
    config = config if isinstance(config, dict) else {}
    found = []
    for key, rule in (("bp_log", "BP"), ("dfa_log", "DFA")):
        rows = content.get(key)
        if rows is None:
            continue
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise foreign
        found.append(
            Trajectory(
                rule,
                _seed(config, path),
                _has_out_ln(config, path),
                np.array([_number(row, "epoch", path) for row in rows]),
                _table(rows, _HIDDEN, path),
                _table(rows, _GRADIENT, path),
            )
        )
    if not found:
        raise foreign
    return found


def _table(rows: Sequence[Mapping[str, Any]], keys: tuple[str, str], path: Path) -> np.ndarray:
    """Returns a list of numbers per row as an array; every row must have as many, all finite."""
    key = next((name for name in keys if name in rows[0]), None)
    if key is None:
        raise KymographError(f"{path} has neither {keys[0]} nor {keys[1]}")
    lists = [row.get(key) for row in rows]
    if not all(isinstance(values, list) and len(values) == len(lists[0] or ()) for values in lists) or not lists[0]:
        raise KymographError(f"{path}: {key} must be a list of the same length in every epoch")
    for values in lists:
        for value in values or ():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise KymographError(f"{path}: {key} holds {str(value)[:20]!r}, which is no finite number")
    return np.array(lists, dtype=np.float64)


def _number(row: Mapping[str, Any], key: str, path: Path) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise KymographError(f"{path}: an entry has no {key}")
    return value


def _seed(config: Mapping[str, Any], path: Path) -> int:
    """Returns the seed from the log's settings, or from a file name such as ``snapshot_vit_s42.json``."""
    if isinstance(config.get("seed"), int):
        return config["seed"]
    number = re.search(r"_s(\d+)$", path.stem)
    return int(number[1]) if number else 0


def _has_out_ln(config: Mapping[str, Any], path: Path) -> bool:
    """Says whether the network had a LayerNorm before its head: from the settings, or from the names in use."""
    if isinstance(config.get("out_ln"), bool):
        return config["out_ln"]
    name = f"{path.parent.name}/{path.name}".lower()
    return not any(mark in name for mark in ("noln", "no_outln", "no_out_ln"))


def from_store(store: Store, model: str) -> list[Trajectory]:
    """Returns the trajectories of the plain BP and DFA arms of ``model``, with and without the LayerNorm."""
    found = []
    for run in store.select("snapshot").finished:
        parts = run.arm.split("/")
        if parts[0] != model or parts[1] not in ("bp", "dfa") or parts[2:] not in ([], ["no_out_ln"]):
            continue
        norm, gradient = run.series["stream_norm"], run.series["stream_grad"]
        scale = run.summary["buffer_size"]
        found.append(
            Trajectory(
                parts[1].upper(),
                run.seed,
                bool(run.config["out_ln"]),
                norm.step.astype(float),
                norm.value,
                gradient.value / scale,
            )
        )
    return found
