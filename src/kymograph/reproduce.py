"""Every study on embedded data: run it, draw its figures, and print what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kymograph.lab import choose_seeds, sweep
from kymograph.runs.provenance import code_hash
from kymograph.runs.store import Store
from kymograph.studies.study import Study, list_studies

# What `reproduce` runs beyond a study's default arms: (arms, settings). The script's own set-up comes first.
EXTRA: dict[str, list[tuple[tuple[str, ...] | None, dict[str, Any]]]] = {
    "clipping": [(("learnable/*",), {})],
    "depth": [(None, {"task": "orthogonal"})],
}


def reproduce(out: str, n_seeds: int, engine: str, workers: int | None) -> int:
    """Runs all studies at ``n_seeds`` seeds below ``out``, draws figures, prints tables; returns the exit code."""
    seeds = choose_seeds(None, n_seeds)
    root = Path(out)
    failed = 0
    for study in list_studies():
        for arms, fields in [(None, {}), *EXTRA.get(study.name, [])]:
            done = sweep(
                study,
                study.name,
                seeds,
                arms=arms,
                out=root,
                engine=engine,
                workers=workers,
                device="cpu",
                quiet=False,
                fields=fields,
            )
            failed += len(done.failures)
            setting = " ".join([*(arms or ["default arms"]), *(f"{name}={value}" for name, value in fields.items())])
            print(f"\n{study.name}, {setting}: {done.computed} runs computed, {done.found} found")
            print(headline_table(study, done.store.finished))
            directory = root / "figures" / "-".join([study.name, *map(str, fields.values())])
            if arms is None:
                _draw(study, done.store, directory)
            else:
                _draw(study, done.store, directory.with_name(f"{directory.name}-{arms[0].split('/')[0]}"))
    return 1 if failed else 0


def _draw(study: Study, store: Store, directory: Path) -> None:
    """Draws the study's figures unless they are there already, drawn from these very runs by this very code."""
    from kymograph.figures.save import save_stale

    _, kept = save_stale(store, study.figures(), directory, code_hash())
    print(f"figures: {directory}" + (f" ({kept} were up to date)" if kept else ""))


def headline_table(study: Study, store: Store) -> str:
    """Returns the study's headline numbers as text: a row per arm, mean over seeds and its 95 % interval."""
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for arm in store.arms:
        part = store.select(arms=[arm])
        cells = [_mean_and_interval(part.summary(key).values[0]) for key in study.headlines]
        diverged = sum(run.summary.get("finite") is False for run in part)
        rows.append([arm, f"{len(part.seeds)}" + (f" ({diverged} diverged)" if diverged else ""), *cells])
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    )


def _mean_and_interval(values: np.ndarray) -> str:
    """Returns ``mean [low, high]`` over seeds; the interval is Student's t and is left out for a single seed."""
    from scipy.special import stdtrit

    total = len(values)
    values = values[np.isfinite(values)]
    if not len(values):
        return "missing"
    left_out = f" of {len(values)}" if len(values) < total else ""
    mean = values.mean()
    if len(values) == 1:
        return f"{mean:.3g}{left_out}"
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))
    spread = "" if half == 0 else f" [{mean - half:.3g}, {mean + half:.3g}]"
    return f"{mean:.3g}{spread}{left_out}"
