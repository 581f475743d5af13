"""A figure by reference: its name can be listed without loading what draws it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


@dataclass(frozen=True)
class Drawing:
    """A study's figure: the function that draws it, as ``module:name``, and a line about it."""

    home: str
    about: str

    def __call__(self, store: Store, **options: Any) -> Figure:
        """Draws the figure from ``store``; ``options`` are the function's own, such as ``style``."""
        module, name = self.home.split(":")
        return getattr(importlib.import_module(module), name)(store, **options)


def about(draw: Callable[..., Any]) -> str:
    """Returns a line about a figure: what its study says, or the first line of its function's docstring."""
    return draw.about if isinstance(draw, Drawing) else (draw.__doc__ or "").strip().split("\n")[0]
