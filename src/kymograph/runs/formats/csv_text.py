"""Tables as CSV text: shortest numbers, empty cells for what is missing, compressed if the file's name ends in .gz."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.runs.files import write_atomically

_END = "\r\n"  # the writer quotes a cell that holds a character of what ends its lines
_FORMULA = ("=", "@", "+", "-", "\t", "\r")


def csv_line(cells: Iterable[Any]) -> str:
    """Returns one row of a CSV file, without the end of the line; None is an empty cell.

    A text that a spreadsheet would compute, because it starts like a formula, has an apostrophe before it.

    >>> csv_line(["a, b", None, 0.1, True, "=1+1", "-0.5"])
    '"a, b",,0.1,True,\'=1+1,-0.5'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator=_END).writerow([_cell(cell) for cell in cells])
    return text.getvalue().removesuffix(_END)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def number_texts(values: np.ndarray) -> list[str]:
    """Returns each of (n,) numbers with the fewest digits that restore it in its own precision; NaN is empty.

    >>> number_texts(np.array([0.1, np.nan, np.inf], dtype=np.float32))
    ['0.1', '', 'inf']
    """
    return ["" if text == "nan" else text for text in values.astype(str).tolist()]


def write_csv(path: Path, lines: Sequence[str]) -> None:
    """Writes the lines of a table to ``path``, whole or not at all."""
    content = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def summary_path(path: Path) -> Path:
    """Returns where the table of summaries lies that goes with a table of series.

    >>> summary_path(Path("runs.csv.gz")).name
    'runs-summary.csv.gz'
    """
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(ending)}-summary{ending}")
