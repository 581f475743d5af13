"""Importing users' code: the code that runs is the code that is hashed.

A module is imported again if it was edited since, if other code imported it, or if another study has a module of the
same name.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from kymograph._errors import KymographError, first_line
from kymograph._io.files import MAX_SOURCE, read_bytes
from kymograph._registry import Registry, source_file
from kymograph._sweep.code_identity import dotted_name, part_code, part_key, source_files, source_hash

Cached = TypeVar("Cached", bound="functools._lru_cache_wrapper[Any]")
_SOURCE = "__kymograph_source__"
"""The attribute in which a module keeps the hash of the source that it was imported from."""
_PREFIX = "kymograph_user_"
_loading: list[str] = []
"""The users' modules that are being imported."""
_added: list[str] = []
"""The directories added to ``sys.path`` for studies."""
_hashed: dict[str, str] = {}
"""The last computed hash of each part's source, by module."""
_cached: list[functools._lru_cache_wrapper[Any]] = []
"""The functions whose caches are cleared when users' code is imported again."""


@contextlib.contextmanager
def without_bytecode() -> Iterator[None]:
    """Keeps Python from writing ``__pycache__`` next to a user's code, which may be in any directory."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


@dataclass(frozen=True)
class CodeReference:
    """Where a study's code is: an importable module or a file, and the study's name in it."""

    name: str
    """The class, instance or function in the module."""
    module: str = ""
    file: str = ""
    """An absolute path, for a study that is run from its file."""
    search: tuple[str, ...] = ()
    """Directories to search for the module after all installed packages."""
    user_defined: bool = True
    """Whether the code is a user's, so that its hash is part of its runs' identity."""

    def __str__(self) -> str:
        home = self.file or self.module
        return f"{home}:{self.name}" if self.name else home

    def load(self) -> Any:
        """Returns an instance of the study, importing it if necessary; a user-defined one gets its source hash."""
        module = self.load_module()
        value = getattr(module, self.name, None)
        if value is None:
            raise KymographError(f"cannot load the study {self}: {module.__name__} has no {self.name!r}")
        source = getattr(module, _SOURCE, None) if self.user_defined else None
        if self.user_defined and source is None:
            raise KymographError(
                f"cannot load the study {self}: its code is not in a file, and the source is part of a run's identity; "
                "save it in a file"
            )
        try:
            study = value() if isinstance(value, type) else value
            study.source = source
        except Exception as error:  # e.g. an abstract class
            raise KymographError(f"cannot load the study {self}: {first_line(error)}") from None
        return study

    def load_module(self) -> ModuleType:
        """Imports the module from its current source; raises a KymographError if that fails."""
        try:
            if not self.user_defined:
                return importlib.import_module(self.module)
            self._extend_path()
            path = self.path()
            with without_bytecode():
                return importlib.import_module(self.module) if path is None else self._current(path)
        except Exception as error:  # a user's module can fail to load in any way
            raise KymographError(f"cannot load the study {self}: {first_line(error)}") from None

    def path(self) -> Path | None:
        """Returns the Python file of the code, found without importing it; None if it has none."""
        if self.file:
            return Path(self.file).resolve()
        if self.module == "__main__":
            file = getattr(sys.modules["__main__"], "__file__", None)
            return Path(file).resolve() if file else None
        return source_file(self.module, self.search)

    @property
    def is_running_program(self) -> bool:
        """Whether the code is that of the program that is running, e.g. a script that runs its own study.

        A worker has to run the program again up to its study, with whatever the program does before it.
        """
        path = self.path()
        return self.module == "__main__" or (path is not None and _is_from(sys.modules["__main__"], path))

    def files(self) -> dict[str, Path]:
        """Returns the code's file and the local modules that it imports, by import name."""
        path = self.path()
        return {} if path is None else source_files(path, self.dotted_name(), self.search)

    def current_source(self) -> str:
        """Returns the hash of the code as it is on disk now."""
        return source_hash(self.files())

    def dotted_name(self) -> str:
        """Returns the name under which the code is imported if nothing else has that name."""
        return dotted_name(Path(self.file))[0] if self.file else self.module

    def _extend_path(self) -> None:
        """Puts the study's directories at the end of ``sys.path``, but before those of other studies."""
        wanted = list(self.search)
        if self.file:
            file = Path(self.file).resolve()
            wanted += [str(dotted_name(file)[1]), str(file.parent)]  # the second for scripts inside a package
        current = [path for path in dict.fromkeys(wanted) if path in _added or path not in sys.path]
        others = [path for path in _added if path in sys.path and path not in current]
        for directory in (*current, *others):
            if directory in sys.path and directory in _added:
                sys.path.remove(directory)
        sys.path.extend((*current, *others))  # last, so that they never shadow an installed package
        _added[:] = [*current, *others]

    def _current(self, path: Path) -> ModuleType:
        """Returns the module of a file, importing it again unless it and its local imports are unchanged."""
        files = self.files()
        source = source_hash(files)
        name = self.dotted_name()
        if self.is_running_program:
            module = sys.modules["__main__"]  # it cannot be imported again
            setattr(module, _SOURCE, source)
            return module
        if source_file(name, self.search) != path:  # taken, e.g. by the standard library
            files[_PREFIX + path.stem] = files.pop(name)
            name = _PREFIX + path.stem
        loaded = sys.modules.get(name)
        if loaded is not None and getattr(loaded, _SOURCE, None) == source and not _conflicting_modules(files):
            return loaded
        forget(files)
        module = importlib.import_module(name) if "." in name else _module_from_file(name, path)
        setattr(module, _SOURCE, source)
        return module


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _conflicting_modules(files: Mapping[str, Path]) -> list[str]:
    """Returns the names under which something other than these files is imported, e.g. another study's helper."""
    return [name for name, path in files.items() if name in sys.modules and not _is_from(sys.modules[name], path)]


def cleared_on_reimport(function: Cached) -> Cached:
    """Decorates a cached function: whenever users' code is imported again, its cache is cleared.

    The cache may hold objects that the old code made, e.g. the data set of a user's package.
    """
    _cached.append(function)
    return function


def _clear_caches() -> None:
    for function in _cached:
        function.cache_clear()


def forget(files: Mapping[str, Path]) -> None:
    """Makes Python import these files again from source: bytecode can be stale by less than its time stamp shows."""
    _clear_caches()
    for package in _conflicting_modules(files):
        for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
            _drop(name)
        _drop(package)
    for name, path in files.items():
        if read_bytes(path, MAX_SOURCE).strip():  # an empty __init__.py has nothing to import again
            _drop(name)
        bytecode = Path(importlib.util.cache_from_source(str(path)))
        with contextlib.suppress(OSError):
            if bytecode.stat().st_mtime_ns <= path.stat().st_mtime_ns:
                bytecode.unlink()


def forget_directory(directory: Path) -> None:
    """Makes Python forget every module below ``directory`` and no longer search there."""
    _clear_caches()
    prefixes = {str(directory), str(directory.resolve())}

    def below(location: object) -> bool:
        return isinstance(location, str) and any(location.startswith(f"{prefix}{os.sep}") for prefix in prefixes)

    for paths in (sys.path, _added):
        paths[:] = [path for path in paths if not below(path)]
    for name, module in [*sys.modules.items()]:
        attributes = getattr(module, "__dict__", {})  # some modules invent any attribute on access
        if any(map(below, (attributes.get("__file__"), *(attributes.get("__path__") or ())))):
            _drop(name)
    importlib.invalidate_caches()


def _drop(name: str) -> None:
    """Removes a module from ``sys.modules`` and from its package."""
    module = sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    if module is not None and getattr(sys.modules.get(parent), child, None) is module:
        delattr(sys.modules[parent], child)


def _module_from_file(name: str, path: Path) -> ModuleType:
    """Imports a file under the given name; returns the module, which is kept like any other import."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _loading.append(name)
    try:
        spec.loader.exec_module(module)
    except Loading:
        pass  # its studies are defined by now, and the rest is not needed
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        _loading.pop()
    return module


class Loading(BaseException):
    """Stops the import of a program that runs its own study, when only the study is wanted."""


def stop_while_loading() -> None:
    """Stops the import that is under way, if any: loading a study must not run the program that defines it."""
    if _loading:
        raise Loading


def part_hashes(parts: Iterable[tuple[Registry, str]]) -> dict[str, str]:
    """Returns the `source_hash` of each part that is not built in, by kind and name.

    A part that was imported before it was first hashed, or edited since, is imported again when it is next loaded, so
    that the code that runs is the code that is hashed.
    """
    hashes = {}
    for registry, name in parts:
        code = part_code(registry, name)
        if code is None:
            continue
        if _hashed.get(code.module) != code.source:
            if any(module in sys.modules for module in code.files):
                forget(code.files)
            _hashed[code.module] = code.source
        hashes[part_key(registry, name)] = code.source
    return hashes
