"""Names that a package offers and loads when they are first used; its imports for the type checker are the one list."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from kymograph._errors import KymographError


def load_on_demand(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns ``__getattr__``, ``__dir__`` and ``__all__`` of a package that is being imported.

        if TYPE_CHECKING:
            from my_lab._engines import Engine as Engine
        else:
            __getattr__, __dir__, __all__ = load_on_demand(__name__)

    The names are those that the block under ``TYPE_CHECKING`` imports as themselves. It is read from the source text,
    so that the list which a type checker or an editor follows is the list that is loaded. Names of a package that is
    not installed are left out, and using one says what to install.
    """
    homes = _homes(package)
    missing = {top for top in {home.split(".")[0] for home in homes.values()} if importlib.util.find_spec(top) is None}
    names = sorted(name for name, home in homes.items() if home.split(".")[0] not in missing)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(homes[name])
            if not hasattr(module, name):
                return importlib.import_module(f"{homes[name]}.{name}")  # a package such as `kymograph.rules`
        except ModuleNotFoundError as error:
            raise KymographError(f"{package}.{name} needs {_what_to_install(error)}") from None
        return getattr(module, name)

    def list_names() -> list[str]:
        return sorted({*names, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, list_names, names


def _homes(package: str) -> dict[str, str]:
    """Returns the modules that hold a package's names, by name."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]
    return {
        alias.name: node.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }


def _what_to_install(error: ModuleNotFoundError) -> str:
    """Returns the package that could not be imported, and the command that installs it."""
    top = str(error.name).split(".")[0]
    wanted = "'kymograph[studies]'" if top in ("kymograph_studies", "sklearn") else top
    return f"the package {top}, which is not installed; install it with `pip install {wanted}`"
