"""Tables as CSV text: shortest numbers, empty cells for missing values, compressed if the file's name ends in .gz."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.runs.files import write_atomically

_END = "\r\n"  # the writer quotes a cell that contains a character of its line terminator
_FORMULA = ("=", "@", "+", "-", "\t", "\r")


def csv_line(cells: Iterable[Any]) -> str:
    """Returns one row of a CSV file, without its line terminator; None is an empty cell.

    Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.

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
    """Returns (n,) numbers as text, each with the fewest digits that restore it in its precision; NaN is empty.

    >>> number_texts(np.array([0.1, np.nan, np.inf], dtype=np.float32))
    ['0.1', '', 'inf']
    """
    return ["" if text == "nan" else text for text in values.astype(str).tolist()]


def write_csv(path: Path, lines: Sequence[str]) -> None:
    """Writes the lines of a table to ``path`` atomically."""
    content = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def summary_path(path: Path) -> Path:
    """Returns the path of the table of summaries that goes with a table of series.

    >>> summary_path(Path("runs.csv.gz")).name
    'runs-summary.csv.gz'
    """
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(ending)}-summary{ending}")
