"""A figure by reference, which can be listed without loading the code that draws it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kymograph.errors import KymographError
from kymograph.registry import source_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


@dataclass(frozen=True)
class Drawing:
    """A study's figure: the name of the function that draws it, a line about it, and the name of its files."""

    function: str
    about: str
    file_name: str = ""
    """Empty: the figure's name."""
    from_logs: str = ""
    """The function that draws it from logs of the research scripts, if there is one."""
    modules: tuple[str, ...] = ()
    """The modules that may define the functions; the first that does is used."""

    def bound_to(self, *modules: str) -> Drawing:
        """Returns the drawing with the modules that may define its functions."""
        return replace(self, modules=modules)

    def __call__(self, store: Store, **options: Any) -> Figure:
        """Draws the figure from ``store``; ``options`` are the function's own, such as ``style``."""
        return self._find(self.function)(store, **options)

    def draw_logs(self, trajectories: Any, **options: Any) -> Figure:
        """Draws the figure from the trajectories of script logs."""
        return self._find(self.from_logs)(trajectories, **options)

    def accepts(self, option: str) -> bool:
        """Returns whether the figure's functions for runs and for logs all take an option of that name."""
        functions = [self._find(name) for name in (self.function, self.from_logs) if name]
        return all(option in inspect.signature(function).parameters for function in functions)

    def _find(self, function: str) -> Callable[..., Figure]:
        for name in self.modules:
            module = sys.modules.get(name) or (importlib.import_module(name) if source_file(name) else None)
            if hasattr(module, function):
                return getattr(module, function)
        raise KymographError(f"no function {function!r} draws this figure; looked in {' and '.join(self.modules)}")


def about(draw: Callable[..., Any]) -> str:
    """Returns a line about a figure: what its study says, or the first line of its function's docstring."""
    return draw.about if isinstance(draw, Drawing) else (draw.__doc__ or "").strip().split("\n")[0]
