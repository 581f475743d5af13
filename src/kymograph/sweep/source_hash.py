"""The source of a user-defined study: a hash over its file and the local modules that it imports.

The hash is part of every run's identity, so that an edit makes new runs and never relabels old ones. Imports are
followed through the source text, without running it: a module that is imported by a computed name is not seen, and
neither are data files.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")
_OWN = __name__.split(".")[0]


def source_files(path: Path, module: str, search: Iterable[str] = ()) -> dict[str, Path]:
    """Returns the study's file and every local module it imports, directly or not, by name.

    Args:
        path: the file that defines the study.
        module: its dotted name; the file's stem if it is not inside a package.
        search: further directories in which local modules lie, e.g. the current one.
    """
    root = path.resolve().parents[len(module.split(".")) - (0 if path.name == "__init__.py" else 1)]
    roots = [root, *(Path(directory).resolve() for directory in search)]
    found: dict[str, Path] = {}
    waiting = [(module, path)]
    while waiting:
        name, file = waiting.pop()
        if name in found:
            continue
        found[name] = file
        waiting += [
            (imported, local)
            for imported in _imports(file, name)
            if (local := _local(imported, roots, module.split(".")[0])) is not None
        ]
    return found


def source_hash(files: Mapping[str, Path]) -> str:
    """Returns sixteen hex digits that change whenever one of the ``files``, named as they are imported, does."""
    total = hashlib.sha256()
    for name, file in sorted(files.items()):
        total.update(name.encode() + b"\0" + file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return total.hexdigest()[:16]


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yields the dotted names that a file may import, its packages' own ``__init__`` included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield from _parents(package)
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return  # importing it says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, above), *([node.module] if node.module else [])])
            yield from _parents(base)
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _parents(name: str) -> Iterator[str]:
    """Yields ``a``, ``a.b`` and ``a.b.c`` for ``a.b.c``; importing the last imports them all."""
    words = name.split(".")
    yield from (".".join(words[: count + 1]) for count in range(len(words)) if words[0])


def _local(name: str, roots: Iterable[Path], own_top: str) -> Path | None:
    """Returns the file of a module that lies in one of ``roots`` and that Python would import from there."""
    top = name.split(".")[0]
    if top == _OWN or not top:
        return None
    for root in roots:
        if any(part in _INSTALLED for part in root.parts) and top != own_top:
            continue  # an installed study's own package is its source; what it depends on is not
        base = root.joinpath(*name.split("."))
        file = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if file is not None and not _hidden(top, root):
            return file
    return None


def _hidden(top: str, root: Path) -> bool:
    """Says whether an installed package of the same name comes first, so that the local one is never imported."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    places = [Path(place) for place in (spec.submodule_search_locations or [spec.origin or ""])]
    return not any(place.resolve().is_relative_to(root) for place in places if str(place))
