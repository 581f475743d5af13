"""The research scripts' files: stored runs written in each script's layout, and the snapshot scripts' logs read back.

A log of the snapshot scripts holds ``bp_log`` and ``dfa_log``, lists of one entry per measured epoch. The residual
MLP's entries have ``hidden_norms`` and ``bp_grad_norms_per_sample_med``; ViT-Mini's have ``hidden_norms_cls`` and
``bp_grad_per_sample_l2_med``. Gradients are of the mean loss over the buffer.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph import KymographError, Store, StoredRun
from kymograph._io.documents import read_json
from kymograph._io.files import MAX_TABLE, is_directory, is_file, real_path
from kymograph._io.writing import plain
from kymograph._runs.summaries import is_number
from kymograph.formats import write_atomically
from kymograph_studies.analysis import REFERENCE
from kymograph_studies.clipping import IMBALANCES

PARTS = {
    "script": {
        "attribute": "export_script",
        "about": "the layout that the study's research script wrote, one seed per file",
        "one_seed": True,
    }
}
_HIDDEN = ("hidden_norms", "hidden_norms_cls")
_GRADIENT = ("bp_grad_norms_per_sample_med", "bp_grad_per_sample_l2_med")
_SETUP = ("epochs", "lr", "wd", "depth", "d_hidden", "no_residual_add", "w2_std", "random_targets", "model", "data",
          "batch_size", "expansion")  # fmt: skip
CLIPPING_ARMS = {"no_clip": "no_clip", "clip": "with_clip"}
"""The arms' names here, and in the script."""
CLIPPING_KEYS = ("weight_norm_std", "weight_change_mean", "weight_change_max", "grad_norm_max", "effective_dim_std",
        "final_rare_acc")  # fmt: skip
NEAR_ZERO, SIMILAR = 0.05, 0.10
"""The script's cut-offs for the mean cosine of fresh matrices over the deep layers (lines 137 and 141)."""


def export_script(store: Store, path: Path) -> None:
    """Writes one seed's runs in the layout of the file that the study's research script wrote."""
    if len(store.studies) > 1:
        raise KymographError(f"a script's file has one study; choose it with --study {store.studies[0]}")
    (name,) = store.studies
    if name not in LAYOUTS:
        raise KymographError(f"no script behind {name} wrote a file, so there is no layout to export to")
    write_atomically(path, (json.dumps(plain(LAYOUTS[name](store)), indent=2) + "\n").encode())


def clipping_to_script(store: Store) -> dict[str, Any]:
    """Returns, per imbalance, the script's statistics of both arms with the lines that it prints from them.

    A verdict line of the script compares two numbers of one seed, without margin or test: prediction 2 is "SUPPORTED"
    if the effective dimension varies more without clipping than with it (line 494), prediction 4 if the final rare
    accuracy with clipping is at least that without (line 500). The clipping ratio is the largest gradient norm of the
    run without clipping over the threshold (line 512).
    """
    runs = {run.arm: run for run in store.select("clipping").finished}
    needed = [f"{imbalance}/{arm}" for imbalance in IMBALANCES for arm in CLIPPING_ARMS]
    missing = [arm for arm in needed if arm not in runs]
    if missing:
        raise KymographError(f"the script's output needs the arms {', '.join(needed)}; {missing[0]!r} is missing")
    return {imbalance: _statistics(runs[f"{imbalance}/no_clip"], runs[f"{imbalance}/clip"]) for imbalance in IMBALANCES}


def _statistics(no_clip: StoredRun, clip: StoredRun) -> dict[str, Any]:
    before, after = no_clip.summary, clip.summary
    words = {True: "SUPPORTED", False: "NOT SUPPORTED"}
    return {
        **{key: {CLIPPING_ARMS["no_clip"]: before[key], CLIPPING_ARMS["clip"]: after[key]} for key in CLIPPING_KEYS},
        "prediction_2": words[before["effective_dim_std"] > after["effective_dim_std"]],
        "prediction_4": words[after["final_rare_acc"] >= before["final_rare_acc"]],
        "clipping_ratio": before["clipping_ratio"],
    }


def depth_to_script(store: Store) -> dict[str, Any]:
    """Returns the plain and the residual run of one seed in the layout of the script's file."""
    runs = {run.arm: run for run in store.select("depth").finished}
    missing = [arm for arm in ("plain", "residual") if arm not in runs]
    if missing:
        raise KymographError(f"the script's file needs the arms plain and residual; {missing[0]!r} is missing")
    config = runs["plain"].config
    return {
        "config": {
            "num_layers": config["layers"],
            "hidden_dim": config["width"],
            "num_samples": config["n_samples"],
            "training_steps": config["steps"],
            "learning_rate": config["lr"],
            "batch_size": config["batch_size"],
        },
        "plain_mlp": _network(runs["plain"]),
        "res_mlp": _network(runs["residual"]),
    }


def _network(run: StoredRun) -> dict[str, Any]:
    return {
        "final_loss": run.summary["final_loss"],
        "initial_loss": run.summary["initial_loss"],
        "gradient_norms": run.series["grad_norm"].value[-1].tolist(),
        "activation_means": run.series["pre_mean"].value[-1].tolist(),
        "activation_stds": run.series["pre_std"].value[-1].tolist(),
    }


def calibration_to_script(store: Store) -> dict[str, Any]:
    """Returns the numbers that the script prints for one network; standard deviations have denominator n.

    The script's ``deep_std`` is taken over draws and layers together (line 128): it measures how much the cosine of one
    layer varies, and is larger than the standard deviation of the deep mean, the summary's ``deep_null_sd``.
    """
    runs = list(store.select("calibration").finished)
    if len(runs) != 1:
        arms = ", ".join(run.arm for run in runs) or "none"
        raise KymographError(f"the script examines one network; choose it with --arms and --seed (found: {arms})")
    (run,) = runs
    training = run.series["cosine"].value[0]  # (layers,)
    draws = run.series[f"null_{REFERENCE}"].value[:, : len(training)]  # (draws, layers), without the deep mean
    deep = draws[:, 1:]
    return {
        "network": f"{run.arm} at seed {run.seed}",
        "images": run.summary["calibration_images"],
        "n_fresh": len(draws),
        "test_acc": run.summary["test_accuracy"],
        "training": {
            "cos_mean": training.tolist(),
            "layer_mean": float(training.mean()),
            "deep_mean": float(training[1:].mean()),
        },
        "fresh": {
            "cos_mean": draws.tolist(),
            "deep_mean_by_draw": deep.mean(axis=1).tolist(),
            "mean_by_layer": draws.mean(axis=0).tolist(),
            "std_by_layer": draws.std(axis=0).tolist(),
            "deep_mean": float(deep.mean()),
            "deep_std": float(deep.std()),
        },
        "conclusion": conclusion(float(deep.mean())),
    }


def conclusion(fresh_deep_mean: float) -> str:
    """Returns which of three conclusions the script's cut-offs give; NaN gives the last, as in the script.

    The cut-offs use only the mean of the null, which is 0 whatever the network does. The p-values and claims of
    `calibration` decide what they cannot.
    """
    size = abs(fresh_deep_mean)
    if size < NEAR_ZERO:
        return "real: fresh matrices give a cosine near 0"
    if size > SIMILAR:
        return "generic: fresh matrices give a cosine like that of training"
    return "mixed: fresh matrices give something in between"


def snapshot_to_script(store: Store) -> dict[str, Any]:
    """Returns the BP and the DFA run of one seed and one network in the script's layout; BP may be missing."""
    pairs: dict[str, dict[str, StoredRun]] = {}
    for run in store.select("snapshot").finished:
        parts = run.arm.split("/")
        if len(parts) > 1 and parts[1] in ("bp", "dfa"):
            pair = pairs.setdefault("/".join([parts[0], "*", *parts[2:]]), {})
            one_setup([_trajectory(other) for other in pair.values()] + [_trajectory(run)])
            pair[parts[1]] = run
    pairs = {name: pair for name, pair in pairs.items() if "dfa" in pair}
    if len(pairs) != 1:
        names = ", ".join(sorted(pairs)) or "none"
        raise KymographError(f"the script's file has one network's BP and DFA; choose with --arms (found: {names})")
    (pair,) = pairs.values()
    dfa, bp = pair["dfa"], pair.get("bp")
    config = dfa.config
    by_rule = {key: _of_rule(run) for key, run in (("bp", bp), ("dfa", dfa)) if run is not None}
    return {
        "config": {**_setup(dfa), "seed": dfa.seed, "out_ln": config["out_ln"], "skip_bp": bp is None, **by_rule},
        "depth": config["depth"],
        "d_hidden": config["width"],
        "num_classes": dfa.summary["classes"],
        "bp_log": None if bp is None else _entries(bp),
        "dfa_log": _entries(dfa),
    }


def _setup(run: StoredRun) -> dict[str, Any]:
    """Returns the settings that BP and DFA of one network share, those of the script under its names."""
    config = run.config
    script = {name: config[name] for name in ("epochs", "lr", "wd", "depth", "log_every", "w2_std", "random_targets")}
    script |= {"d_hidden": config["width"], "no_residual_add": not config["skip"]}
    return script | {name: config[name] for name in ("model", "data", "batch_size", "expansion")}


def _of_rule(run: StoredRun) -> dict[str, Any]:
    """Returns the settings that belong to a run's rule and may differ between BP and DFA."""
    return {name: run.config[name] for name in ("rms", "clip", "optimizer", "penalty")}


def _entries(run: StoredRun) -> list[dict[str, Any]]:
    buffer = run.summary["buffer_size"]
    vit = run.config["model"] == "vit"
    series = run.series
    return [
        {
            _HIDDEN[vit]: series["stream_norm"].value[index].tolist(),
            _GRADIENT[vit]: (series["stream_grad"].value[index] / buffer).tolist(),
            "bp_grad_norms_F": (series["stream_grad_F"].value[index] / buffer).tolist(),
            "gamma_dfa": float(series["gamma"].value[index]) if "gamma" in series else None,
            "acc_eval": float(series["acc_eval"].value[index]),
            "loss_eval": float(series["loss_eval"].value[index]),
            "epoch": epoch,
        }
        for index, epoch in enumerate(series["stream_norm"].step.tolist())
    ]


@dataclass(frozen=True)
class Trajectory:
    """One run's norms over epochs, on the script's scale."""

    source: str  # the file or the run
    model: str  # "resmlp", "vit" or "conv"
    rule: str  # "BP" or "DFA"
    seed: int
    out_ln: bool
    setup: Mapping[str, Any]  # settings that BP and DFA of all seeds have in common
    of_rule: Mapping[str, Any]  # settings that all seeds of its rule have in common
    epochs: np.ndarray  # (epochs,)
    hidden: np.ndarray  # (epochs, L + 1); NaN where nothing was measured
    gradient: np.ndarray  # (epochs, L + 1)


def from_store(store: Store, model: str) -> list[Trajectory]:
    """Returns the trajectories of the plain BP and DFA arms of ``model``, with and without the LayerNorm."""
    names = {f"{model}/{rule}{tail}" for rule in ("bp", "dfa") for tail in ("", "/no_out_ln")}
    return [_trajectory(run) for run in store.select("snapshot").finished if run.arm in names]


def _trajectory(run: StoredRun) -> Trajectory:
    norm, gradient = run.series["stream_norm"], run.series["stream_grad"]
    return Trajectory(
        f"{run.arm} at seed {run.seed}",
        run.config["model"],
        run.arm.split("/")[1].upper(),
        run.seed,
        bool(run.config["out_ln"]),
        {name: value for name, value in _setup(run).items() if name in _SETUP} | {"version": run.spec.version},
        _of_rule(run),
        norm.step.astype(float),
        norm.value,
        gradient.value / run.summary["buffer_size"],
    )


def read_logs(paths: Sequence[str | Path]) -> list[Trajectory]:
    """Reads script logs from files, or from every ``*.json`` of a directory; errors name the bad file."""
    files: list[Path] = []
    for given in map(Path, paths):
        if is_directory(given):
            inside = sorted(given.glob("*.json"))
            if not inside:
                raise KymographError(f"there is no log (*.json) in {given}")
            files += inside
        elif is_file(given):
            files.append(given)
        else:
            raise KymographError(f"there is no log {given}")
    if len({real_path(path) for path in files}) < len(files):
        twice = next(path for path in files if [real_path(other) for other in files].count(real_path(path)) > 1)
        raise KymographError(f"{twice} is given twice")
    return [trajectory for index, path in enumerate(files) for trajectory in _read(path, unknown_seed=-1 - index)]


def one_setup(trajectories: Sequence[Trajectory]) -> None:
    """Raises unless the trajectories are distinct seeds of one set-up, separately with and without LayerNorm."""
    firsts: dict[tuple[Any, ...], tuple[Any, str]] = {}
    by_run: dict[tuple[str, bool, int], Trajectory] = {}
    for trajectory in trajectories:
        out_ln, rule, source = trajectory.out_ln, trajectory.rule, trajectory.source
        settings: dict[tuple[Any, ...], Any] = {(out_ln, name): value for name, value in trajectory.setup.items()}
        settings |= {(out_ln, rule, name): value for name, value in trajectory.of_rule.items()}
        for key, value in settings.items():
            first, first_source = firsts.setdefault(key, (value, source))
            if value != first:
                raise KymographError(
                    f"{first_source} and {source} differ in {key[-1]} ({first} and {value}); choose runs of one set-up"
                )
        other = by_run.setdefault((rule, out_ln, trajectory.seed), trajectory)
        if other is not trajectory:
            raise KymographError(f"{other.source} and {source} both contain {rule} at seed {trajectory.seed}; give one")


def _read(path: Path, unknown_seed: int) -> list[Trajectory]:
    foreign = KymographError(f"{path} is not a log of the snapshot script (it needs bp_log or dfa_log)")
    content = read_json(path, MAX_TABLE, finite=False)
    if not isinstance(content, dict):
        raise foreign
    config = content.get("config")
    config = config if isinstance(config, dict) else {}
    trajectories = []
    for key, rule in (("bp_log", "BP"), ("dfa_log", "DFA")):
        rows = content.get(key)
        if rows is None:
            continue
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise foreign
        of_rule = config.get(rule.lower())
        trajectories.append(
            Trajectory(
                str(path),
                _model(config, rows[0]),
                rule,
                _seed(config, path, unknown_seed),
                _has_out_ln(config, path),
                {name: config[name] for name in _SETUP if name in config},
                of_rule if isinstance(of_rule, dict) else {},
                np.array([_epoch(row, path) for row in rows]),
                _table(rows, _HIDDEN, path),
                _table(rows, _GRADIENT, path),
            )
        )
    if not trajectories:
        raise foreign
    return trajectories


def _table(rows: Sequence[Mapping[str, Any]], keys: tuple[str, str], path: Path) -> np.ndarray:
    """Returns a list of numbers per row as an array; rows must be equally long, and values finite or missing (null)."""
    key = next((name for name in keys if name in rows[0]), None)
    if key is None:
        raise KymographError(f"{path} has neither {keys[0]} nor {keys[1]}")
    lists = [row.get(key) for row in rows]
    if not all(isinstance(values, list) and len(values) == len(lists[0] or ()) for values in lists) or not lists[0]:
        raise KymographError(f"{path}: {key} must be a list of the same length in every epoch")
    for value in itertools.chain.from_iterable(values or () for values in lists):
        if value is not None and not _is_number(value):
            shown = "a huge number" if isinstance(value, int) else repr(str(value)[:20])
            raise KymographError(f"{path}: {key} is {shown}, which is not a finite number")
    return np.array(lists, dtype=np.float64)


def _is_number(value: Any) -> bool:
    return is_number(value) and not isinstance(value, bool)


def _epoch(row: Mapping[str, Any], path: Path) -> float:
    epoch = row.get("epoch")
    if not _is_number(epoch):
        raise KymographError(f"{path}: an entry has no epoch")
    assert isinstance(epoch, int | float)
    return epoch


def _model(config: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Returns the network's name, from the settings or inferred from the keys in use."""
    stated = config.get("model")
    return stated if isinstance(stated, str) else "vit" if _HIDDEN[1] in row else "resmlp"


def _seed(config: Mapping[str, Any], path: Path, unknown: int) -> int:
    """Returns the seed from the log's settings, or from a file name such as ``snapshot_vit_s42.json``."""
    if isinstance(seed := config.get("seed"), int):
        return seed
    number = re.search(r"_s(\d+)$", path.stem)
    return int(number[1]) if number else unknown


def _has_out_ln(config: Mapping[str, Any], path: Path) -> bool:
    """Returns whether the network had a LayerNorm before its head, from the settings or the names in use."""
    if isinstance(out_ln := config.get("out_ln"), bool):
        return out_ln
    name = f"{path.parent.name}/{path.name}".lower()
    return not any(mark in name for mark in ("noln", "no_outln", "no_out_ln"))


LAYOUTS: Mapping[str, Callable[[Store], Mapping[str, Any]]] = {
    "clipping": clipping_to_script,
    "depth": depth_to_script,
    "snapshot": snapshot_to_script,
    "calibration": calibration_to_script,
}
"""The layout of each research script's own file, by study."""
