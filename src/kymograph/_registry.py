"""Registries: the parts of one kind, found in our own packages and in users' without importing any of them.

A module declares its parts at its top level, in a dictionary literal. One part per module:

    PART = {"about": "scikit-learn's handwritten digits", "training_images": 1437}

Its name is the module's (``-`` for ``_``), or ``PART["name"]``. Several, by name, each with the ``attribute`` of the
module that holds it, which is its name (``_`` for ``-``) unless stated:

    PARTS = {"output-norm": {"about": ...}, "mlp": {"attribute": "MLP", "about": ...}}

The literals are read from the source, so that listing the models or the verbs does not import torch or tyro; the module
is imported when a part is loaded. A package adds parts through the entry points of a group, e.g. ``kymograph.rules``,
which name a module, or a module and its attribute; `kymograph_studies` joins the tool in the same way. A broken part
raises an error when it is used and does not affect the others.

    >>> Registry("kymograph.engines", "kymograph._sweep.engines").names()
    ['serial', 'processes', 'dask', 'slurm']
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from kymograph._errors import KymographError, did_you_mean, first_line
from kymograph._io.files import MAX_SOURCE, read_text

MARK, MARKS = "PART", "PARTS"
DISTRIBUTION = "kymograph"
"""The distribution whose parts are built in: their identity is a version, not a hash of their source."""
PACKAGES = ("kymograph", "kymograph_studies")
"""Its packages."""
_FORMER_GROUPS = {
    "kymograph.accelerators": "kymograph.rules.fast",
    "kymograph.engines": "kymograph.sweep.engines",
    "kymograph.formats": "kymograph.runs.formats",
    "kymograph.nulls": "kymograph.analysis.nulls",
    "kymograph.panels": "kymograph.report.panels",
    "kymograph.quantities": "kymograph.probes.quantities",
    "kymograph.verbs": "kymograph.cli.verbs",
}
"""The names of groups in version 0.1, which installed packages and stored bundles may still use."""
_LAST = 1000
_BEFORE_THE_PATH = (BuiltinImporter, FrozenImporter)


@dataclass(frozen=True)
class Part:
    """One part: its name, the module it lives in, and what the module declares about it."""

    name: str
    module: str
    properties: Mapping[str, Any]
    attribute: str = ""
    """The attribute of the module that holds the part; empty: the registry's default."""
    file: Path | None = None
    """The module's source file; None if it was not found."""
    problem: str = ""
    """Why the part cannot be used, e.g. because another one has its name."""
    built_in: bool = False
    """Whether this distribution itself ships the part."""

    @property
    def about(self) -> str:
        """A one-line description of the part."""
        return str(self.properties.get("about", ""))

    @property
    def order(self) -> float:
        """The part's position in lists."""
        order = self.properties.get("order", _LAST)
        return order if isinstance(order, int | float) and order == order else _LAST


class Registry:
    """The parts of one kind.

    Args:
        group: the group of entry points through which packages add parts, e.g. ``kymograph.rules``.
        home: the package whose own modules declare parts; empty: all parts come through entry points.
        attribute: the name of a part's object in its module, e.g. ``load``; empty: the module's own name.
        noun: what to call a part in error messages.
    """

    def __init__(self, group: str, home: str = "", attribute: str = "", noun: str = "") -> None:
        self.group, self.home, self.attribute = group, home, attribute
        self.noun = noun or group.rsplit(".", 1)[-1].removesuffix("s")

    def parts(self) -> dict[str, Part]:
        """Returns every part by name, in declared order (``PART["order"]``), then by name.

        Of two parts with one name the first is listed, built-in before users', with the clash as its ``problem``.
        """
        found: dict[str, Part] = {}
        for part in (*_in_tree(self.home), *sorted(_in_packages(self.group), key=lambda part: not part.built_in)):
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
        """Returns whether this distribution itself has a part called ``name``, which needs no user code."""
        part = self.parts().get(name)
        return part is not None and part.built_in

    def module(self, name: str) -> ModuleType:
        """Imports and returns the module of the part called ``name``."""
        part = self.part(name)
        try:
            return importlib.import_module(part.module)
        except Exception as error:  # a user's module can fail to load in any way
            raise KymographError(f"the {self.noun} {name!r} cannot be loaded: {first_line(error)}") from None

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
    spec = importlib.util.find_spec(package) if package else None
    found = []
    for directory in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        for path in sorted([*directory.glob("*.py"), *directory.glob("*/__init__.py")]):
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            module = f"{package}.{stem}"
            if stem == "__init__":
                continue
            for name, (properties, problem) in _declared_in(path, module).items():
                if properties is not None or problem:
                    found.append(
                        _part(name or stem, module, properties or {}, file=path, problem=problem, built_in=True)
                    )
    return tuple(found)


def forget_packages() -> None:
    """Forgets which parts the installed packages offer: they are read again, because packages came or went."""
    _in_packages.cache_clear()


@functools.cache
def _in_packages(group: str) -> tuple[Part, ...]:
    """Returns the parts of installed packages; their declarations are read without importing them."""
    found = []
    former = importlib.metadata.entry_points(group=_FORMER_GROUPS[group]) if group in _FORMER_GROUPS else ()
    for entry in (*importlib.metadata.entry_points(group=group), *former):
        try:
            module, attribute = entry.module, entry.attr or ""
        except AttributeError:  # an entry point that names no module
            found.append(Part(entry.name, entry.value, {}, problem=f"invalid entry point {entry.value!r}"))
            continue
        file = source_file(module)
        own = entry.dist is not None and entry.dist.name == DISTRIBUTION
        if own and file is None:
            continue  # this distribution without its science
        declared_here = {} if file is None else _declared_in(file, module)
        properties, problem = declared_here.get(entry.name) or declared_here.get("") or (None, "")
        found.append(_part(entry.name, module, properties or {}, attribute, file, problem, own))
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


def _declared_in(path: Path, module: str) -> dict[str, tuple[dict[str, Any] | None, str]]:
    """Returns what a file declares about each of its parts, and what is wrong with that, if anything.

    Parts in ``PARTS`` are keyed by their names, the one in ``PART`` by the empty string.
    """
    try:
        source = read_text(path, MAX_SOURCE)
    except KymographError:
        return {}  # importing it will raise the error
    declarations: dict[str, tuple[dict[str, Any] | None, str]] = {}
    for mark in (MARK, MARKS):
        if not _assigns(source, mark):
            continue
        literal = declared(source, mark)
        if literal is None:
            declarations[""] = None, f"{mark} in {module} is not a dictionary literal"
        elif mark == MARK:
            declarations[""] = _checked(literal, f"{MARK}[", module)
        else:
            for name, properties in literal.items():
                where = f"{MARKS}[{json.dumps(str(name))}]"
                if isinstance(properties, dict):
                    named = {"attribute": str(name).replace("-", "_"), **properties}
                    declarations[str(name)] = _checked(named, f"{where}[", module)
                else:
                    declarations[str(name)] = None, f"{where} in {module} is not a dictionary literal"
    return declarations


def _checked(properties: Mapping[str, Any], where: str, module: str) -> tuple[dict[str, Any], str]:
    """Returns the declared properties without those of a wrong type, and the first of these in words."""
    order = properties.get("order", _LAST)
    wrong = [
        key for key, value in properties.items() if key in ("name", "about", "attribute") and not isinstance(value, str)
    ]
    if isinstance(order, bool) or not isinstance(order, int | float) or order != order:
        wrong.append("order")
    kind = {"order": "a number"}
    problem = f'{where}"{wrong[0]}"] in {module} must be {kind.get(wrong[0], "a string")}' if wrong else ""
    return {key: value for key, value in properties.items() if key not in wrong}, problem


def _part(
    stem: str,
    module: str,
    properties: Mapping[str, Any],
    attribute: str = "",
    file: Path | None = None,
    problem: str = "",
    built_in: bool = False,
) -> Part:
    name = str(properties.get("name", stem.replace("_", "-")))
    return Part(name, module, properties, attribute or str(properties.get("attribute", "")), file, problem, built_in)


def declared(source: str, mark: str = MARK) -> dict[str, Any] | None:
    """Returns the literal that a module's source assigns to ``mark``; None if it assigns none."""
    for value in _assigned(source, mark):
        try:
            found = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return found if isinstance(found, dict) else None
    return None


def _assigns(source: str, mark: str) -> bool:
    """Returns whether a module assigns anything to ``mark``."""
    return any(True for _ in _assigned(source, mark))


def _assigned(source: str, mark: str) -> Iterable[ast.expr]:
    """Yields the expressions that a module's source assigns to ``mark`` at its top level."""
    if not re.search(rf"^{mark}\b", source, re.MULTILINE):
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and getattr(targets[0], "id", None) == mark:
            yield node.value
