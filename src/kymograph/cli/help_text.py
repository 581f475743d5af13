"""Help texts that fit the terminal: tyro wraps its tables of options, but neither usage lines nor descriptions."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import TextIO

from kymograph.wording import folded, line_width

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class _HeldOutput(io.StringIO):
    """Collects what is written to a stream, and otherwise looks like it, so that colours and frames stay the same."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return self._stream.encoding


@contextlib.contextmanager
def fitting_output() -> Iterator[None]:
    """Folds the lines that are printed in a ``with`` block to the terminal's width; they appear at its end."""
    stream = sys.stdout
    if stream is None:
        yield
        return
    held = _HeldOutput(stream)
    try:
        with contextlib.redirect_stdout(held):
            yield
    finally:
        stream.write(fit(held.getvalue(), line_width()))


def fit(text: str, width: int) -> str:
    r"""Returns text whose lines are folded to ``width`` columns, not counting colours.

    >>> fit("usage: a [-h]\n\nshort", 10)
    'usage: a\n  [-h]\n\nshort'
    """
    return "\n".join(
        line if len(_COLOUR.sub("", line)) <= width else folded(line, width, further="  " if "usage" in line else "")
        for line in text.split("\n")
    )


def columns(rows: list[tuple[str, str]], width: int, indent: str = "  ") -> str:
    """Returns names with texts about them, as two columns; texts that are too long continue below themselves.

    >>> print(columns([("run", "run a study"), ("list", "the studies")], 16))
      run   run a
            study
      list  the
            studies
    """
    left = max((len(name) for name, _ in rows), default=0)
    further = " " * (len(indent) + left + 2)
    return "\n".join(folded(about, width, f"{indent}{name:<{left}}  ", further) for name, about in rows)
