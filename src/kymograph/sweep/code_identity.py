"""The code behind a run: where it is, its hash, and the hashes of the users' parts that it names.

The hash covers a file and the local modules that it imports. It is part of every run's identity, so that an edit makes
new runs and never relabels old ones. Imports are found in the source text, without running it: a module that is
imported by a computed name is not included, and neither are data files. The hash is the same whether the code is given
by file or by module.

The code that runs is the code that is hashed: a module is imported again if it was edited since, if other code imported
it, or if another study has a module of the same name.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import io
import os
import sys
import sysconfig
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, TypeVar

from kymograph.errors import KymographError, first_line
from kymograph.io.files import MAX_SOURCE, read_bytes
from kymograph.registry import Registry, source_file

Cached = TypeVar("Cached", bound="functools._lru_cache_wrapper[Any]")
_INSTALLED = ("site-packages", "dist-packages")
_BUILT_IN = ("kymograph", "kymograph_studies")
_TEXTS = {tokenize.STRING, *(getattr(tokenize, name) for name in ("FSTRING_MIDDLE",) if hasattr(tokenize, name))}
"""Tokens whose lines, except the last, end inside a string, where trailing spaces and empty lines matter."""
_STANDARD_LIBRARY = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
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


def dotted_name(path: Path) -> tuple[str, Path]:
    """Returns the dotted name under which a file is imported, and the directory that holds its top-level package.

    ``lab/deep/study.py`` is ``deep.study`` in ``lab`` if ``deep`` has an ``__init__.py`` and ``lab`` has none.
    """
    path = path.resolve()
    words, root = ([] if path.name == "__init__.py" else [path.stem]), path.parent
    while (root / "__init__.py").is_file() and root.parent != root:
        words.insert(0, root.name)
        root = root.parent
    return ".".join(words), root


def importable_path(name: str, file: Path) -> PurePosixPath:
    """Returns the relative path at which a copy of ``file`` can be imported as ``name``."""
    # The longer name keeps a namespace package, and the package of a script that imports its neighbours.
    words = max(name, dotted_name(file)[0], key=len).split(".")
    ending = ["__init__.py"] if file.name == "__init__.py" else [f"{words.pop()}.py"]
    return PurePosixPath(*words, *ending)


def source_files(path: Path, module: str = "", search: Iterable[str] = ()) -> dict[str, Path]:
    """Returns the file and every local module it imports, directly or indirectly, by import name.

    A module is local unless it belongs to the standard library, to this package, or to an installed package other than
    the file's own.

    Args:
        path: the file that defines the study, or another part.
        module: its dotted name; default: as `dotted_name` finds it.
        search: further directories to search for local modules, e.g. the current one.
    """
    importlib.invalidate_caches()  # a file may be newer than Python's cached listing of its directory
    path = path.resolve()
    dotted, root = dotted_name(path)
    directories = [str(root), str(path.parent), *map(str, search)]
    tops = {dotted.split(".")[0], (module or dotted).split(".")[0], *_installed_package(path)}
    files: dict[str, Path] = {}
    waiting = [(module or dotted, path)]
    while waiting:
        name, file = waiting.pop()
        if name in files:
            continue
        files[name] = file
        waiting += [
            (imported, local)
            for imported in dict.fromkeys(_imports(file, name))
            if imported not in files and (local := _local(imported, directories, tops)) is not None
        ]
    return files


def source_hash(files: Mapping[str, Path]) -> str:
    """Returns sixteen hex digits that change whenever the code in one of the ``files`` does, ignoring comments.

    Each file is identified by its `dotted_name`.
    """
    total = hashlib.sha256()
    for name, file in sorted((dotted_name(file)[0], file) for file in set(files.values())):
        total.update(name.encode() + b"\0" + code_text(read_bytes(file, MAX_SOURCE)) + b"\0")
    return total.hexdigest()[:16]


def code_text(source: bytes) -> bytes:
    r"""Returns Python code without comments, blank lines and trailing spaces; what is not Python stays as it is.

    Unlike a syntax tree, the result is the same for every version of Python.

    >>> code_text(b"x = 1  # one\n\n# nothing\ny = '#'\n")
    b"x = 1\ny = '#'\n"
    """
    text = source.replace(b"\r\n", b"\n")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        lines = text.decode(encoding).splitlines(keepends=True)
        tokens = list(tokenize.generate_tokens(io.StringIO("".join(lines)).readline))
    except (SyntaxError, ValueError, LookupError, tokenize.TokenError):
        return text
    inside = {number for token in tokens if token.type in _TEXTS for number in range(token.start[0], token.end[0])}
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    kept = (line if number in inside else line.rstrip() + "\n" for number, line in enumerate(lines, start=1))
    return "".join(line for number, line in enumerate(kept, start=1) if number in inside or line.strip()).encode()


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yields the dotted names that a file may import, its packages' own ``__init__`` included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield from _parents(package)
    try:
        tree = ast.parse(read_bytes(path, MAX_SOURCE))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # importing it will raise the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, above), *([node.module] if node.module else [])])
            yield from _parents(base)
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def _parents(name: str) -> Iterator[str]:
    """Yields ``a``, ``a.b`` and ``a.b.c`` for ``a.b.c``; importing the last imports them all."""
    words = name.split(".")
    yield from (".".join(words[: count + 1]) for count in range(len(words)) if words[0])


def _local(name: str, directories: Iterable[str], tops: Collection[str]) -> Path | None:
    """Returns the file of a user's module; None if it is installed, or if there is no such module.

    An installed study's own package, which is among ``tops``, is source; its dependencies are not.
    """
    top = name.split(".")[0]
    if top in _BUILT_IN or (file := source_file(name, directories)) is None:
        return None
    if any(part in _INSTALLED for part in file.parts):
        return file if top in tops else None
    return None if any(file.is_relative_to(library) for library in _STANDARD_LIBRARY) else file


def _installed_package(path: Path) -> list[str]:
    """Returns the top-level package that an installed file belongs to, even one without an ``__init__.py``."""
    steps = zip(path.parts, path.parts[1:], strict=False)
    return [Path(name).stem for parent, name in steps if parent in _INSTALLED][-1:]


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
        if name == "__main__" or _is_from(sys.modules["__main__"], path):
            module = sys.modules["__main__"]  # the program that is running; it cannot be imported again
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


@dataclass(frozen=True)
class PartCode:
    """Where the code of a user's part is, and its hash."""

    group: str
    """The part's group of entry points, e.g. ``kymograph.rules``."""
    name: str
    module: str
    attribute: str
    """The attribute that the entry point names; empty: the registry's default."""
    source: str
    files: Mapping[str, Path]
    """The part's file and the local modules that it imports, by import name."""


def part_code(registry: Registry, name: str) -> PartCode | None:
    """Returns the code of a user's part; None for a built-in part, and for one without a source file."""
    if registry.is_built_in(name):
        return None
    part = registry.part(name)
    if part.file is None:
        return None  # no source to read, e.g. a compiled module
    files = source_files(part.file, part.module)
    return PartCode(registry.group, name, part.module, part.attribute, source_hash(files), files)


def part_key(registry: Registry, name: str) -> str:
    """Returns the key under which a part's hash is stored, e.g. ``rule dfa``."""
    return f"{registry.noun} {name}"


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
