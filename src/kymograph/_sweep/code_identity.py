"""The identity of the code behind a run: the files it is made of, and their hash.

The hash covers a file and the local modules that it imports. It is part of every run's identity, so that an edit makes
new runs and never relabels old ones. Imports are found in the source text, without running it: a module that is
imported by a computed name is not included, and neither are data files. The hash is the same whether the code is given
by file or by module.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import sysconfig
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kymograph._io.files import MAX_SOURCE, read_bytes
from kymograph._registry import PACKAGES, Registry, source_file

_INSTALLED = ("site-packages", "dist-packages")
_TEXTS = {tokenize.STRING, *(getattr(tokenize, name) for name in ("FSTRING_MIDDLE",) if hasattr(tokenize, name))}
"""Tokens whose lines, except the last, end inside a string, where trailing spaces and empty lines matter."""
_STANDARD_LIBRARY = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}


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
    if top in PACKAGES or (file := source_file(name, directories)) is None:
        return None
    if any(part in _INSTALLED for part in file.parts):
        return file if top in tops else None
    return None if any(file.is_relative_to(library) for library in _STANDARD_LIBRARY) else file


def _installed_package(path: Path) -> list[str]:
    """Returns the top-level package that an installed file belongs to, even one without an ``__init__.py``."""
    steps = zip(path.parts, path.parts[1:], strict=False)
    return [Path(name).stem for parent, name in steps if parent in _INSTALLED][-1:]


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
