"""A figure by reference: its name can be listed without loading what draws it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


@dataclass(frozen=True)
class Drawing:
    """A study's figure: the name of the function that draws it, a line about it, and the name of its files."""

    function: str
    about: str
    file_name: str = ""
    """Empty: that of the figure."""
    from_logs: str = ""
    """The function that draws it from logs of the research scripts, if there is one."""
    module: str = ""

    def bound_to(self, module: str) -> Drawing:
        """Returns the drawing with the module that holds its functions."""
        return replace(self, module=module)

    def __call__(self, store: Store, **options: Any) -> Figure:
        """Draws the figure from ``store``; ``options`` are the function's own, such as ``style``."""
        return getattr(importlib.import_module(self.module), self.function)(store, **options)

    def draw_logs(self, trajectories: Any, **options: Any) -> Figure:
        """Draws the figure from the trajectories of script logs."""
        return getattr(importlib.import_module(self.module), self.from_logs)(trajectories, **options)


def about(draw: Callable[..., Any]) -> str:
    """Returns a line about a figure: what its study says, or the first line of its function's docstring."""
    return draw.about if isinstance(draw, Drawing) else (draw.__doc__ or "").strip().split("\n")[0]
