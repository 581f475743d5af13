"""The code of a study that was defined in a notebook, or at IPython's prompt: a file of the statements it depends on.

The file is what runs, in this process and in every worker, and its hash is part of a run's identity. So a study in a
notebook computes what its cells say, whatever else was executed in between, and two kernels that executed the same code
make the same runs. Statements are found in the text of the executed cells. The kernel's memory decides nothing, except
that a number or a function is known to be unchanged by whatever it was passed to; but where it differs from what the
file defines, the study is refused, because one of the two is not what the user means.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kymograph._errors import KymographError
from kymograph._io.processes import temporary_directory
from kymograph._io.writing import write_atomically
from kymograph._registry import PACKAGES
from kymograph._sweep.code_identity import _Names, code_text, installed, names_in
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.kernel_values import check_kernel_values

_EXECUTING_MAGICS = ("time", "capture", "prun")
"""Cell magics that execute the cell as it is."""
_UNCHANGEABLE = (int, float, complex, str, bytes, type(None), FunctionType, type, ModuleType)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def executed_cells() -> list[str]:
    """Returns the source of all cells that IPython has executed, the running one last; empty elsewhere."""
    shell = _shell()
    cells = [] if shell is None else shell.user_ns.get("In", [])
    return [cell for cell in cells if isinstance(cell, str)] if isinstance(cells, list) else []


def _shell() -> Any:
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def reference_to_cells(study: str, name: str, function: Callable[..., Any] | None) -> CodeReference | None:
    """Writes the code of a study of the running notebook to a temporary file; returns a reference to it.

    Returns None if no notebook is running, or if none of its cells defines the study. Raises a KymographError if the
    file gives a name that the study uses another value than it has in the kernel.

    Args:
        study: the study's name, for messages.
        name: the name that the study, or its class, has in the notebook.
        function: the study's function, if it is one, by which the cell that defined it is recognised.
    """
    shell = _shell()
    cells = executed_cells()
    if shell is None or not cells:
        return None
    statements = statements_of(cells, _current_line(shell.user_ns))
    position = _definition(statements, study, name, function)
    if position is None:
        return None
    made = program(statements, position, study, shell.user_ns)
    file = Path(_home().name) / f"notebook_{name}.py"
    write_atomically(file, made.text.encode("utf-8", "surrogateescape"))
    here = [path for path in dict.fromkeys((str(Path.cwd()), *sys.path)) if path and not installed(Path(path))]
    code = CodeReference(name, file=str(file), search=tuple(here))
    check_kernel_values(code.load_module(), made.names, name, shell.user_ns)
    return code


@functools.cache
def _home() -> tempfile.TemporaryDirectory[str]:
    return temporary_directory("notebook")


@dataclass(frozen=True)
class Statement:
    """One statement of an executed cell, outside all functions."""

    text: str
    node: ast.stmt

    @functools.cached_property
    def names(self) -> _Names:
        """The names that it uses, binds and may change."""
        return names_in(self.text)

    @functools.cached_property
    def at_once(self) -> Collection[str]:
        """The names that it uses while it is executed; for a class, these are also those of its body."""
        if not isinstance(self.node, ast.ClassDef):
            return self.names.at_once
        return self.names.at_once | names_in("\n".join(map(ast.unparse, self.node.body))).at_once


def statements_of(cells: Sequence[str], current_line: int | None = None) -> list[Statement]:
    """Returns the statements of executed cells; of the last cell, if it is running, those before its current line."""
    statements = []
    for index, cell in enumerate(cells):
        found = list(_split(cell))
        if index == len(cells) - 1 and current_line is not None:
            found = [one for one in found if (one.node.end_lineno or 0) < current_line]
        statements += found
    return statements


def _split(cell: str) -> Iterator[Statement]:
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # it was not executed either
    lines = cell.splitlines(keepends=True)
    for node in tree.body:
        match node:
            case ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [ast.Constant(name), _, ast.Constant(inner)])):
                if name in _EXECUTING_MAGICS and isinstance(inner, str):
                    yield from _split(inner)
                continue
        if isinstance(node, _DEFINITIONS):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Statement("".join(lines[first - 1 : node.end_lineno]).rstrip("\n"), node)
        else:
            yield Statement(ast.get_source_segment(cell, node) or ast.unparse(node), node)


def _current_line(space: Mapping[str, Any]) -> int | None:
    """Returns the line of the running cell that is being executed; None if it is unknown."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is space and frame.f_code.co_name == "<module>":
            return frame.f_lineno
        frame = frame.f_back
    return None


def _definition(
    statements: Sequence[Statement], study: str, name: str, function: Callable[..., Any] | None
) -> int | None:
    """Returns the position of the statement that defined a study; None if there is none.

    A cell that failed half-way may hold a later definition, which was not executed.
    """
    positions = [index for index, statement in enumerate(statements) if name in statement.names.bound]
    try:
        text = None if function is None else code_text(inspect.getsource(inspect.unwrap(function)).encode())
    except (OSError, TypeError):
        text = None  # e.g. of a cell that was timed
    for index in reversed(positions):
        statement = statements[index]
        if text is None or not isinstance(statement.node, _DEFINITIONS) or code_text(statement.text.encode()) == text:
            return index
    if positions:
        raise KymographError(f"the cell that defines {study} was executed again and failed; execute it once more")
    return None


class Program(NamedTuple):
    """The source of a module that defines a study."""

    text: str
    names: Collection[str]
    """The names that are looked up when the study runs, which have the values that they have in the end."""


def program(statements: Sequence[Statement], position: int, study: str, space: Mapping[str, Any]) -> Program:
    """Returns the source of a module with the statement at ``position`` and all that it depends on.

    A statement depends on the last ones before it that bound the names it uses, and on what changed their objects in
    between. What a function uses is looked up when it is called: what the study's function uses, at the end.

    Args:
        statements: all that were executed.
        position: that of the study's definition.
        study: its name, for messages.
        space: the values that the names have now.
    """
    end = len(statements)
    kept = {position}
    asked: set[tuple[str, int]] = set()
    waiting = [(name, position) for name in statements[position].at_once]
    waiting += [(name, end) for name in statements[position].names.inner]
    while waiting:
        name, before = waiting.pop()
        if (name, before) in asked:
            continue
        asked.add((name, before))
        needed = _makers(statements, position, name, before, space.get(name, _UNKNOWN))
        if not needed and name in space and not hasattr(builtins, name):
            raise KymographError(
                f"{study} uses {name}, which no cell of this notebook defines; define or import it in a cell"
            )
        for index in needed:
            statement = statements[index]
            waiting += [(inner, before) for inner in statement.names.inner if index != position]
            if index not in kept:
                kept.add(index)
                waiting += [(used, index) for used in statement.at_once]
    texts = [statement.text for statement in _in_canonical_order([statements[index] for index in sorted(kept)])]
    imports = [one for one in statements if isinstance(one.node, ast.ImportFrom)]
    future = [one.text for one in imports if getattr(one.node, "module", None) == "__future__"]
    texts = [*dict.fromkeys(future), *(text for text in texts if text not in future)]
    text = f"# The code of the study {study}, from the cells of a notebook.\n" + "\n\n\n".join(texts) + "\n"
    return Program(text, {name for name, before in asked if before == end})


def _in_canonical_order(statements: Sequence[Statement]) -> list[Statement]:
    """Returns the statements in an order that does not depend on when they were executed, where that changes nothing.

    A cell that is executed again, perhaps after an edit, comes after the study. In a new kernel that executes all cells
    from the top, it comes before. Both must give the same code.
    """
    left = _without_repetitions(statements)
    reads = [_reads(statement, left) for statement in left]
    writes = [statement.names.bound | statement.names.changed | statement.names.touched for statement in left]

    def must_precede(first: int, second: int) -> bool:
        return bool(writes[first] & (reads[second] | writes[second]) or reads[first] & writes[second])

    earlier = [{first for first in range(second) if must_precede(first, second)} for second in range(len(left))]
    ranks = [(not isinstance(one.node, ast.Import | ast.ImportFrom), code_text(one.text.encode())) for one in left]
    order: dict[int, None] = {}
    while len(order) < len(left):
        free = (index for index in range(len(left)) if index not in order and earlier[index] <= order.keys())
        order[min(free, key=lambda index: (ranks[index], index))] = None
    return [left[index] for index in order]


def _reads(statement: Statement, others: Sequence[Statement]) -> set[str]:
    """Returns the names that a statement uses while it is executed, including those of the functions that it calls."""
    names, waiting = set(statement.at_once), list(statement.at_once)
    while waiting:
        name = waiting.pop()
        inner = {used for other in others if name in other.names.bound for used in other.names.inner}
        waiting += inner - names
        names |= inner
    return names


def _without_repetitions(statements: Sequence[Statement]) -> list[Statement]:
    """Returns the statements without those that repeat an earlier one and do the same as that."""
    kept: list[Statement] = []
    for statement in statements:
        imports = isinstance(statement.node, ast.Import | ast.ImportFrom)
        names = statement.names.bound | set(statement.at_once)
        writers = (
            one for one in reversed(kept) if names & (one.names.bound | (set() if imports else one.names.changed))
        )
        last = next(writers, None)
        repeats = last is not None and code_text(last.text.encode()) == code_text(statement.text.encode())
        calls = any(isinstance(node, ast.Call) for node in ast.walk(statement.node))
        if not repeats or (calls and not isinstance(statement.node, _DEFINITIONS)):
            kept.append(statement)
    return kept


_UNKNOWN = object()


def _makers(statements: Sequence[Statement], position: int, name: str, before: int, value: Any) -> list[int]:
    """Returns the positions of the statements that made what had a name before the statement at ``before``."""
    makers: list[int] = []
    for index in reversed(range(before)):
        statement = statements[index]
        if name in statement.names.bound:
            return [index, *makers]
        if _may_change(statement, name, value, before_study=index < position):
            makers.append(index)
    stars = [index for index in range(before) if statements[index].names.star]
    return [*stars, *makers]


def _may_change(statement: Statement, name: str, value: Any, before_study: bool) -> bool:
    """Returns whether a statement may change the object that has a name, or give the name to another one."""
    names = statement.names
    if isinstance(statement.node, ast.If) and name in names.touched:
        return True  # one of its branches may bind the name
    if isinstance(value, ModuleType):
        if value.__name__.split(".")[0] in PACKAGES:
            return False  # running, judging and drawing a study does not change it
        # Such as torch.set_default_dtype(...). What comes after the study was defined is not part of it.
        return name in names.changed and before_study
    if isinstance(statement.node, ast.Expr) and isinstance(value, _UNCHANGEABLE) and not isinstance(value, type):
        return False
    return name in names.changed or (name in names.touched and not isinstance(value, _UNCHANGEABLE))
