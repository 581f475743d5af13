"""Every study on embedded data: run it, draw its figures, and print what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kymograph.lab import choose_seeds, sweep
from kymograph.runs.provenance import code_hash
from kymograph.runs.store import Store
from kymograph.studies.draw import file_name
from kymograph.studies.study import Study, list_studies
from kymograph.studies.table import headline_table

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

    draws = {file_name(name): draw for name, draw in study.figures().items()}
    _, kept = save_stale(store, draws, directory, code_hash())
    print(f"figures: {directory}" + (f" ({kept} were up to date)" if kept else ""))
