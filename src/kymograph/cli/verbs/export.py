"""``kymograph export``: stored runs for other programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from kymograph.cli.arguments import choice, parse, positional, shown
from kymograph.cli.choices import FORMATS, SCRIPT
from kymograph.cli.options import SelectOptions
from kymograph.errors import KymographError, UsageError

PART = {
    "about": "stored runs as JSON, CSV or Parquet, for TensorBoard or MLflow, or in the scripts' own layout",
    "usage": "export DIR",
    "order": 130,
}


@dataclass(frozen=True)
class Options:
    """Export stored runs to other programs."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    to: Annotated[str, choice(FORMATS)]
    """Format; `script` is the layout that the study's research script wrote, one seed per file."""
    output: Annotated[str, shown("PATH")]
    """File to write: for mlflow an SQLite database, for tensorboard a directory."""
    seed: Annotated[int | None, shown("SEED", default="the only one")] = None
    """With `--to script`: which seed."""
    select: SelectOptions = field(default_factory=SelectOptions)


def main(words: list[str]) -> int:
    """Writes stored runs in another format; prints the path."""
    options = parse(Options, words, "kymograph export")
    if options.output == "-":
        raise UsageError("kymograph export writes files, not standard output; name one, e.g. --output runs.csv")
    store, study = options.select.open(options.directory)
    if options.to == SCRIPT:
        from kymograph.runs.formats.script import export_script
        from kymograph.studies.loading import registered_study

        if len(store.studies) > 1:
            raise KymographError(f"a script's file has one study; choose it with --study {store.studies[0]}")
        (name,) = store.studies
        code = study.code[0] if study.code else registered_study(name)
        if code is None:
            raise KymographError(f"{name} is not registered here; name its code, e.g. --study path/to/file.py")
        path = export_script(store, options.output, options.seed, code.to_script)
    else:
        from kymograph.runs.export import export

        path = export(store, options.to, options.output)
    print(path)
    return 0
