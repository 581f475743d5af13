"""Registries: the parts of one kind, found in the tree and in users' packages, without importing any of them.

A part is one module that assigns a dictionary literal ``PART`` at its top level:

    PART = {"about": "scikit-learn's handwritten digits", "training_images": 1437}

Its name is the module's (``-`` for ``_``), or ``PART["name"]``. The literal is read from the source, so that listing
the models or the verbs costs no import of torch or tyro; the module is imported when the part is loaded. A user's
package adds parts through entry points of the same group, e.g. ``kymograph.rules``.

    >>> sorted(Registry("kymograph.data", "load").names())
    ['cifar10', 'digits', 'synthetic']
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kymograph.errors import KymographError, did_you_mean

MARK = "PART"


@dataclass(frozen=True)
class Part:
    """One part: its name, the module it lives in, and what the module declares about it."""

    name: str
    module: str
    facts: Mapping[str, Any]

    @property
    def about(self) -> str:
        """A line about the part."""
        return str(self.facts.get("about", ""))


class Registry:
    """The parts of one kind.

    Args:
        package: the package whose modules are searched, which also names the group of entry points.
        attribute: what a part's module must define, e.g. ``load``; the part's object. Empty: its module's own name.
        noun: what to call a part in error messages.
    """

    def __init__(self, package: str, attribute: str, noun: str = "") -> None:
        self.package, self.attribute = package, attribute
        self.noun = noun or package.rsplit(".", 1)[-1].removesuffix("s")

    def parts(self) -> dict[str, Part]:
        """Returns every part by name, in declared order (``PART["order"]``), then by name."""
        found = {part.name: part for part in (*_in_tree(self.package), *_in_packages(self.package))}
        return dict(sorted(found.items(), key=lambda item: (item[1].facts.get("order", 1000), item[0])))

    def names(self) -> list[str]:
        """Returns the names of all parts."""
        return list(self.parts())

    def part(self, name: str) -> Part:
        """Returns the part called ``name``; raises a sentence with the nearest name if there is none."""
        parts = self.parts()
        if name not in parts:
            raise KymographError(f"there is no {self.noun} {name!r}{did_you_mean(name, parts)}")
        return parts[name]

    def module(self, name: str) -> ModuleType:
        """Imports and returns the module of the part called ``name``."""
        part = self.part(name)
        try:
            return importlib.import_module(part.module)
        except ImportError as error:
            raise KymographError(f"the {self.noun} {name!r} cannot be loaded: {error}") from None

    def load(self, name: str) -> Any:
        """Returns the object that the part called ``name`` defines."""
        module = self.module(name)
        attribute = self.attribute or module.__name__.rpartition(".")[2]
        if not hasattr(module, attribute):
            raise KymographError(f"{module.__name__} defines no {attribute!r}, which every {self.noun} needs")
        return getattr(module, attribute)


@functools.cache
def _in_tree(package: str) -> tuple[Part, ...]:
    spec = importlib.util.find_spec(package)
    found = []
    for directory in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        for path in sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")]):
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            facts = declared(path.read_text(encoding="utf-8"))
            if facts is not None and stem != "__init__":
                found.append(_part(stem, f"{package}.{stem}", facts))
    return tuple(found)


@functools.cache
def _in_packages(group: str) -> tuple[Part, ...]:
    """Returns the parts that installed packages offer; what they declare is read without importing them."""
    found = []
    for entry in importlib.metadata.entry_points(group=group):
        found.append(_part(entry.name, entry.module, _facts_of(entry.module)))
    return tuple(found)


def _facts_of(module: str) -> Mapping[str, Any]:
    try:
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    except (ImportError, OSError, ValueError, UnicodeDecodeError):
        return {}
    return declared(source) or {}


def _part(stem: str, module: str, facts: Mapping[str, Any]) -> Part:
    return Part(str(facts.get("name", stem.replace("_", "-"))), module, facts)


def declared(source: str) -> dict[str, Any] | None:
    """Returns the literal that a module's source assigns to ``PART``; None if it assigns none."""
    if not re.search(rf"^{MARK}\b", source, re.MULTILINE):
        return None
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and getattr(targets[0], "id", None) == MARK:
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                return None
            return value if isinstance(value, dict) else None
    return None
