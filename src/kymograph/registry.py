"""Registries: the parts of one kind, found in this package and in users' packages without importing any of them.

A part is one module that assigns a dictionary literal ``PART`` at its top level:

    PART = {"about": "scikit-learn's handwritten digits", "training_images": 1437}

Its name is the module's (``-`` for ``_``), or ``PART["name"]``. The literal is read from the source, so that listing
the models or the verbs does not import torch or tyro; the module is imported when the part is loaded. A user's package
adds parts through entry points in the group of the same name, e.g. ``kymograph.rules``. A broken part raises an error
when it is used and does not affect the others.

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
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.foreign.files import MAX_SOURCE, read_text

MARK = "PART"
_LAST = 1000
_BEFORE_THE_PATH = (BuiltinImporter, FrozenImporter)


@dataclass(frozen=True)
class Part:
    """One part: its name, the module it lives in, and what the module declares about it."""

    name: str
    module: str
    facts: Mapping[str, Any]
    attribute: str = ""
    """The attribute that the entry point names (``module:attribute``); empty: the registry's default."""
    file: Path | None = None
    """The module's source file; None if it was not found."""
    problem: str = ""
    """Why the part cannot be used, e.g. because another one has its name."""

    @property
    def about(self) -> str:
        """A one-line description of the part."""
        return str(self.facts.get("about", ""))

    @property
    def order(self) -> float:
        """The part's position in lists."""
        order = self.facts.get("order", _LAST)
        return order if isinstance(order, int | float) and order == order else _LAST


class Registry:
    """The parts of one kind.

    Args:
        package: the package whose modules are searched, which also names the group of entry points.
        attribute: the name of a part's object in its module, e.g. ``load``; empty: the module's own name.
        noun: what to call a part in error messages.
    """

    def __init__(self, package: str, attribute: str, noun: str = "") -> None:
        self.package, self.attribute = package, attribute
        self.noun = noun or package.rsplit(".", 1)[-1].removesuffix("s")

    def parts(self) -> dict[str, Part]:
        """Returns every part by name, in declared order (``PART["order"]``), then by name.

        Of two parts with one name the first is listed, built-in before users', with the clash as its ``problem``.
        """
        found: dict[str, Part] = {}
        for part in (*_in_tree(self.package), *_in_packages(self.package)):
            first = found.setdefault(part.name, part)
            if (first.module, first.attribute) != (part.module, part.attribute):
                clash = f"{first.module} and {part.module} both offer it; uninstall one, or rename it"
                found[part.name] = replace(first, problem=first.problem or clash)
        return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))

    def names(self) -> list[str]:
        """Returns the names of all parts."""
        return list(self.parts())

    def part(self, name: str) -> Part:
        """Returns the part called ``name``; raises a KymographError if there is none, or if it cannot be used."""
        parts = self.parts()
        if name not in parts:
            raise KymographError(f"there is no {self.noun} {name!r}{did_you_mean(name, parts)}")
        if parts[name].problem:
            raise KymographError(f"the {self.noun} {name!r} cannot be used: {parts[name].problem}")
        return parts[name]

    def is_built_in(self, name: str) -> bool:
        """Returns whether this package itself has a part called ``name``, which needs no user code."""
        return any(part.name == name for part in _in_tree(self.package))

    def module(self, name: str) -> ModuleType:
        """Imports and returns the module of the part called ``name``."""
        part = self.part(name)
        try:
            return importlib.import_module(part.module)
        except Exception as error:  # a user's module can fail to load in any way
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise KymographError(f"the {self.noun} {name!r} cannot be loaded: {reason}") from None

    def load(self, name: str) -> Any:
        """Returns the object that the part called ``name`` defines."""
        module, attribute = self.module(name), self.attribute_of(name)
        found: Any = module
        for word in attribute.split("."):
            if not hasattr(found, word):
                raise KymographError(f"{module.__name__} defines no {attribute!r}, which every {self.noun} needs")
            found = getattr(found, word)
        return found

    def attribute_of(self, name: str) -> str:
        """Returns the attribute of its module that holds the part called ``name``."""
        part = self.part(name)
        return part.attribute or self.attribute or part.module.rpartition(".")[2]


@functools.cache
def _in_tree(package: str) -> tuple[Part, ...]:
    spec = importlib.util.find_spec(package)
    found = []
    for directory in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        for path in sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")]):
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            module = f"{package}.{stem}"
            facts, problem = _facts_in(path, module)
            if (facts is not None or problem) and stem != "__init__":
                found.append(_part(stem, module, facts or {}, file=path, problem=problem))
    return tuple(found)


@functools.cache
def _in_packages(group: str) -> tuple[Part, ...]:
    """Returns the parts of installed packages; their declarations are read without importing them."""
    found = []
    for entry in importlib.metadata.entry_points(group=group):
        try:
            module, attribute = entry.module, entry.attr or ""
        except AttributeError:  # an entry point that names no module
            found.append(Part(entry.name, entry.value, {}, problem=f"invalid entry point {entry.value!r}"))
            continue
        file = source_file(module)
        facts, problem = (None, "") if file is None else _facts_in(file, module)
        found.append(_part(entry.name, module, facts or {}, attribute, file, problem))
    return tuple(found)


def source_file(module: str, search: Iterable[str] = ()) -> Path | None:
    """Returns the Python file that importing ``module`` would run, found without importing anything; None if none.

    ``search`` lists directories to search after those of ``sys.path``.
    """
    path: Sequence[str] = [*sys.path, *search]
    spec: ModuleSpec | None = None
    words = module.split(".")
    for count in range(1, len(words) + 1):
        spec = _spec(".".join(words[:count]), path, top=count == 1)
        if spec is None or (count < len(words) and spec.submodule_search_locations is None):
            return None
        path = list(spec.submodule_search_locations or ())
    origin = None if spec is None or spec.origin is None else Path(spec.origin)
    return origin.resolve() if origin is not None and origin.suffix == ".py" and origin.is_file() else None


def _spec(name: str, path: Sequence[str], *, top: bool) -> ModuleSpec | None:
    """Returns the import spec of one module from Python's finders; editable installs can have their own finder."""
    try:
        for finder in _BEFORE_THE_PATH if top else ():
            if (found := finder.find_spec(name)) is not None:
                return found
        if (found := PathFinder.find_spec(name, path)) is not None:
            return found
        others = [one for one in sys.meta_path if one is not PathFinder and one not in _BEFORE_THE_PATH]
        return next((spec for one in others if top and (spec := one.find_spec(name, None)) is not None), None)
    except Exception:  # a third-party finder can fail in any way
        return None


def _facts_in(path: Path, module: str) -> tuple[dict[str, Any] | None, str]:
    """Returns the ``PART`` of a file, None if it has none, and what is wrong with it, if anything."""
    try:
        source = read_text(path, MAX_SOURCE)
    except KymographError:
        return None, ""  # importing it will raise the error
    facts = declared(source)
    if facts is None:
        return None, f"{MARK} in {module} is not a dictionary literal" if _assigns(source) else ""
    order = facts.get("order", _LAST)
    wrong = [key for key, value in facts.items() if key in ("name", "about") and not isinstance(value, str)]
    if isinstance(order, bool) or not isinstance(order, int | float) or order != order:
        wrong.append("order")
    kind = {"order": "a number"}
    problem = f'{MARK}["{wrong[0]}"] in {module} must be {kind.get(wrong[0], "a string")}' if wrong else ""
    return {key: value for key, value in facts.items() if key not in wrong}, problem


def _part(
    stem: str,
    module: str,
    facts: Mapping[str, Any],
    attribute: str = "",
    file: Path | None = None,
    problem: str = "",
) -> Part:
    return Part(str(facts.get("name", stem.replace("_", "-"))), module, facts, attribute, file, problem)


def declared(source: str) -> dict[str, Any] | None:
    """Returns the literal that a module's source assigns to ``PART``; None if it assigns none."""
    for value in _assigned(source):
        try:
            found = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return found if isinstance(found, dict) else None
    return None


def _assigns(source: str) -> bool:
    """Returns whether a module assigns anything to ``PART``."""
    return any(True for _ in _assigned(source))


def _assigned(source: str) -> Iterable[ast.expr]:
    """Yields the expressions that a module's source assigns to ``PART`` at its top level."""
    if not re.search(rf"^{MARK}\b", source, re.MULTILINE):
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and getattr(targets[0], "id", None) == MARK:
            yield node.value
