"""The identity of the code behind a run: the files it is made of, and their hash.

The hash covers a file and the local modules that it imports. It is part of every run's identity, so that an edit makes
new runs and never relabels old ones. Imports are found in the source text, without running it: a module that is
imported by a computed name is not included, and neither are data files. The hash is the same whether the code is given
by file or by module. The code of a notebook is what its running cell depends on, among the cells that were executed.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import importlib
import io
import sys
import sysconfig
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


def cells_hash(cells: Sequence[str]) -> str:
    """Returns the hash of a notebook's last executed cell, the cells it depends on, and the local modules they import.

    ``cells``: the source of every executed cell, in the order of execution.
    """
    needed = needed_cells(cells)
    files: dict[str, Path] = {}
    directories = [*dict.fromkeys((str(Path.cwd()), *filter(None, sys.path)))]
    for name in dict.fromkeys(name for cell in needed for name in _imports_of(_tree(cell), "")):
        if name not in files and (local := _local(name, directories, ())) is not None:
            files |= source_files(local, name)
    total = hashlib.sha256(source_hash(files).encode())
    for cell in sorted({code_text(cell.encode("utf-8", "replace")) for cell in needed}):
        total.update(b"\0" + cell)
    return total.hexdigest()[:16]


def needed_cells(cells: Sequence[str]) -> list[str]:
    """Returns the last of the executed cells and the earlier ones on which it depends, directly or indirectly.

    A cell depends on the last one before it that assigned a name which it uses, and on all those since that may have
    changed what has that name: by assigning to a part of it, calling a method of it, or passing it to a function that
    is not built in. Calling a function of an imported module counts if its result is not used, as in
    ``torch.manual_seed(seed)``. A cell that only shows something is not needed.

    >>> needed_cells(["rate = 0.1", "width = 8", "rate = 0.2", "print(rate)", "train(rate)"])
    ['rate = 0.2', 'train(rate)']
    """
    modules = {name for cell in cells for name in names_in(cell).imported}
    last, called = names_in(cells[-1]), set[str]()
    while True:  # a function looks its names up when it is called, which may be long after it was defined
        needed, wanted = [cells[-1]], (called - last.bound) | last.used
        for cell in reversed(cells[:-1]):
            names = names_in(cell)
            if names.star or wanted & (names.bound | names.changed | (names.touched - modules)):
                needed.insert(0, cell)
                wanted = (wanted - names.bound) | names.used
        uses = {name for cell in needed for name in names_in(cell).inner}
        if uses <= called:
            return needed
        called |= uses


class _Names(ast.NodeVisitor):
    """The names that a cell uses before it binds them, those it binds, and those whose objects it may change."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.at_once: set[str] = set()
        """Those of them that are used while the cell is executed, not only when its functions are called."""
        self.bound: set[str] = set()
        self.touched: set[str] = set()
        self.changed: set[str] = set()
        """Names of which a part is assigned, or a method is called without using its result."""
        self.imported: set[str] = set()
        self.inner: set[str] = set()
        """Names that functions use when they are called, by when the whole cell has been executed."""
        self.star = False

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        elif node.id not in self.bound:
            self.used.add(node.id)

    def _visit_value_first(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self.visit(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self.visit(target)

    visit_Assign = visit_AnnAssign = visit_NamedExpr = _visit_value_first

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name) and node.target.id not in self.bound:
            self.used.add(node.target.id)
        self.visit(node.target)

    def _visit_part(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.changed |= _root(node)
        self.generic_visit(node)

    visit_Attribute = visit_Subscript = _visit_part

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.changed |= _root(node.value.func) if isinstance(node.value.func, ast.Attribute) else set()
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            self.touched |= _root(node.func)
        if not (isinstance(node.func, ast.Name) and (hasattr(builtins, node.func.id) or node.func.id == "display")):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self.touched |= _root(argument.value if isinstance(argument, ast.Starred) else argument)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        for part in (node.iter, node.target, *node.body, *node.orelse):
            self.visit(part)

    visit_AsyncFor = visit_For

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before, ends = set(self.bound), []
        for branch in (node.body, node.orelse):
            self.bound = set(before)
            for statement in branch:
                self.visit(statement)
            ends.append(self.bound)
        self.touched |= ends[0] ^ ends[1]  # what only one branch binds may still be what it was
        self.bound = ends[0] & ends[1]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outside = (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, node.returns)
        annotations = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
        for part in filter(None, (*outside, *annotations)):
            self.visit(part)
        self._visit_scope(node, node.body)
        self.bound.add(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._visit_scope(node, node.body)
        self.bound.add(node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_scope(node, [node.body])

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._visit_scope(node, [*ast.iter_child_nodes(node)], at_once=True)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _visit_scope(self, scope: ast.AST, parts: Iterable[ast.AST], at_once: bool = False) -> None:
        """Takes the names that a scope of its own uses from outside."""
        names = [one for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)]
        shared = {name for one in ast.walk(scope) if isinstance(one, ast.Global) for name in one.names}
        local = {one.id for one in names if not isinstance(one.ctx, ast.Load)} - shared
        local |= {one.arg for one in ast.walk(scope) if isinstance(one, ast.arg)}
        outer = {one.id for one in names} - local
        self.touched |= shared
        if at_once:
            self.used |= outer - self.bound
        else:
            self.inner |= outer

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.star |= alias.name == "*"
            self.imported.add(alias.asname or alias.name.split(".")[0])
        self.bound |= self.imported

    visit_ImportFrom = visit_Import


def _root(node: ast.AST) -> set[str]:
    """Returns the name to which an expression such as ``a.b[0].c`` belongs; empty if it has none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


@functools.lru_cache(maxsize=1024)
def names_in(cell: str) -> _Names:
    """Returns the names that the code of a cell uses, binds and may change."""
    names = _Names()
    names.visit(_tree(cell))
    names.at_once = set(names.used)
    names.used |= names.inner - names.bound
    return names


def _tree(source: str | bytes) -> ast.Module:
    """Returns the syntax tree of Python code; an empty one if it has none, since running the code raises the error.

    The code below a notebook's cell magic, e.g. ``%%time``, is that of its cell.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
    for statement in tree.body:
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [_, _, ast.Constant(str() as inner)])):
                return _tree(inner)
    return tree


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yields the dotted names that a file may import, its packages' own ``__init__`` included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield from _parents(package)
    yield from _imports_of(_tree(read_bytes(path, MAX_SOURCE)), package)


def _imports_of(tree: ast.Module, package: str) -> Iterator[str]:
    """Yields the dotted names that code in a package may import."""
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
    return None if installed(file) else file


def installed(path: Path) -> bool:
    """Returns whether a path belongs to Python itself or to its installed packages."""
    return any(part in _INSTALLED for part in path.parts) or any(
        path.resolve().is_relative_to(library) for library in _STANDARD_LIBRARY
    )


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
