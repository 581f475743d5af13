"""The code of a study in a notebook: the statements it depends on, and no others."""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._sweep import notebook_code
from kymograph._sweep.code_identity import code_text
from kymograph._sweep.notebook_code import program, statements_of

IMPORTS = "import kymograph as ky\nimport math"
HELPER = "def helper(x):\n    return math.sqrt(x) * scale  # a comment"
SCALE = "scale = 2.0"
STUDY = '@ky.study(arms={"one": {}})\ndef mine(run, *, lr: float = 0.1):\n    return {"x": helper(lr)}'


def helper(x: float) -> float:
    return x


SPACE: dict[str, Any] = {"ky": ky, "math": math, "helper": helper, "scale": 2.0, "mine": object()}


def code_of(*cells: str, space: dict[str, Any] = SPACE) -> str:
    """Returns the code of the study `mine`, without comments and empty lines."""
    statements = statements_of(cells)
    position = max(index for index, statement in enumerate(statements) if "mine" in statement.names.bound)
    return code_text(program(statements, position, "mine", space).text.encode()).decode()


PLAIN = code_of(IMPORTS, HELPER, SCALE, STUDY)


def test_a_study_has_what_it_uses() -> None:
    assert code_text("\n".join([IMPORTS, STUDY, HELPER, SCALE]).encode()).decode() == PLAIN
    space: dict[str, Any] = {}
    exec(compile(PLAIN, "notebook_mine.py", "exec"), space)
    assert space["mine"](None, lr=4.0) == {"x": 4.0}


@pytest.mark.parametrize(
    "cells",
    [
        (IMPORTS, HELPER, SCALE, STUDY, "store = ky.run(mine)", "mine.run()", "ky.judge(store)"),
        (IMPORTS, HELPER, SCALE, STUDY, "print(scale)\nhelper(scale)", "math.sqrt(scale)"),
        (IMPORTS, "other = 3", HELPER, SCALE, "def unused():\n    return helper(1)", STUDY, "mine"),
        (IMPORTS, HELPER.replace("math.sqrt(x)", "x"), HELPER, SCALE, STUDY),
        (IMPORTS, "scale = 1.0", HELPER, SCALE, STUDY, "ky.run(mine)"),
        (f"{IMPORTS}\n{HELPER}\n{SCALE}\n{STUDY}\nky.run(mine)",),
        (IMPORTS, HELPER, f"get_ipython().run_cell_magic('time', '', {SCALE!r})", STUDY),
        (IMPORTS, HELPER, SCALE, STUDY, "get_ipython().run_line_magic('matplotlib', 'inline')", "def broken(:"),
        (IMPORTS, HELPER, SCALE, STUDY, STUDY),
        (IMPORTS, STUDY, HELPER, SCALE),
        (IMPORTS, HELPER, SCALE, STUDY, IMPORTS, SCALE, HELPER, "ky.run(mine)", IMPORTS),
        (IMPORTS, HELPER, SCALE, STUDY, "scale = 5.0", SCALE),
    ],
)
def test_looking_running_and_executing_again_change_nothing(cells: tuple[str, ...]) -> None:
    assert code_of(*cells) == PLAIN


@pytest.mark.parametrize(
    "cells",
    [
        (IMPORTS, HELPER, "scale = 3.0", STUDY),
        (IMPORTS, HELPER, SCALE, STUDY, "scale = 3.0"),
        (IMPORTS, HELPER, SCALE, STUDY, HELPER.replace("sqrt", "exp")),
        (IMPORTS, HELPER, SCALE, "scale += 1", STUDY),
        (IMPORTS, HELPER, SCALE, "if math.pi > 3:\n    scale = 1.0", STUDY),
        (IMPORTS, HELPER, SCALE, "helper.extra = 1", STUDY),
        (IMPORTS, HELPER, SCALE, "math.srand(1)", STUDY),
        (IMPORTS, HELPER, SCALE, STUDY.replace("0.1", "0.2")),
        (IMPORTS, HELPER, SCALE, "arms = {'one': {}}", STUDY.replace('{"one": {}}', "arms")),
    ],
)
def test_an_edit_of_what_it_uses_changes_the_code(cells: tuple[str, ...]) -> None:
    assert code_of(*cells) != PLAIN


def test_what_was_done_to_an_object_is_part_of_it_and_to_a_module_only_before_the_study() -> None:
    study = STUDY.replace("helper(lr)", "len(data)")
    space = {**SPACE, "data": []}
    code = code_of(
        IMPORTS, "data = []", "data.append(1)", "fill(data)", study, "data.append(2)", "print(data)", space=space
    )
    assert "data.append(1)" in code and "fill(data)" in code and "data.append(2)" in code and "print" not in code
    study = STUDY.replace("helper(lr)", "math.pi")
    assert "math.seed(1)" in code_of(IMPORTS, "math.seed(1)", study, "math.seed(2)")
    assert "math.seed(2)" not in code_of(IMPORTS, "math.seed(1)", study, "math.seed(2)")


def test_a_name_has_the_value_that_it_had_when_it_was_used() -> None:
    cells = ("n = 1", "def make():\n    return [n]", "data = make()", "n = 2",
             STUDY.replace("helper(lr)", "data[0] + 10 * n"), "class Later:\n    width = n")  # fmt: skip
    space: dict[str, Any] = {}
    exec(compile(code_of(IMPORTS, *cells, space={**SPACE, "n": 2, "data": [1]}), "code", "exec"), space)
    assert space["mine"](None) == {"x": 21} and "Later" not in space
    cells = ("n = 1", "class Net:\n    width = n\n    def __init__(self):\n        self.depth = n", "n = 2",
             STUDY.replace("helper(lr)", "Net.width + 10 * Net().depth"))  # fmt: skip
    exec(compile(code_of(IMPORTS, *cells, space={**SPACE, "n": 2, "Net": type}), "code", "exec"), space)
    assert space["mine"](None) == {"x": 21}


def test_of_the_running_cell_what_was_executed_counts() -> None:
    cell = f"{SCALE}\nstore = ky.run(\n    mine)\nscale = 3.0"
    texts = [statement.text for statement in statements_of([HELPER, cell], current_line=3)]
    assert texts == [HELPER, SCALE]


def test_a_name_from_elsewhere_is_one_sentence() -> None:
    with pytest.raises(KymographError, match="mine uses helper, which no cell of this notebook defines; define or"):
        code_of(IMPORTS, SCALE, STUDY)
    assert "helper" in code_of(IMPORTS, "from helpers import *", STUDY), "a star may import it"


def test_imports_from_the_future_come_first() -> None:
    assert code_of(IMPORTS, "x = 1\nfrom __future__ import annotations", HELPER, SCALE, STUDY).startswith("from __fut")


NUMBER = "K = 5.0\n\n\ndef helper(x):\n    return x * K"
OBJECT = "import types\ncfg = types.SimpleNamespace(k=5.0)\n\n\ndef helper(x):\n    return x * cfg.k"
CLASS = "class Net:\n    def forward(self, x):\n        return x\n\n\ndef helper(x):\n    return Net().forward(x)"
ARRAY = "import numpy as np\ndata = np.arange(3.0)\n\n\ndef helper(x):\n    return data * x"
LIST = "data = [1, {'a': (2.0, None)}]\n\n\ndef helper(x):\n    return data"


class Kernel:
    """A notebook's kernel: it executes cells, keeps their text, and goes on after one that failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.user_ns: dict[str, Any] = {"__name__": "__main__", "In": [], "get_ipython": lambda: self}
        monkeypatch.setattr(notebook_code, "_shell", lambda: self)

    def run_line_magic(self, name: str, line: str) -> None:
        assert name == "time"
        exec(line, self.user_ns)

    def execute(self, *cells: str) -> None:
        for cell in cells:
            self.user_ns["In"].append(cell)
            with contextlib.suppress(ZeroDivisionError):
                exec(compile(cell, "<cell>", "exec", dont_inherit=True), self.user_ns)

    def load(self) -> Any:
        """Returns the study `mine` as it would be run."""
        code = notebook_code.reference_to_cells("mine", "mine", None)
        assert code is not None
        return code.load()


NUMBER_CHANGED = "^K is 5.0 in the cells that define it and 13.0 in the kernel; assign or define it in a cell by itself"
OBJECT_CHANGED = r"^cfg is namespace\(k=5.0\) in the cells that define it and namespace\(k=13.0\) in the kernel; assign"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((NUMBER, "1 / 0\ndef helper(x):\n    return 67.0"), "^helper is not the same in the cells"),
        ((NUMBER, "get_ipython().run_line_magic('time', 'K = 13.0')"), NUMBER_CHANGED),
        ((NUMBER, "def setk():\n    global K\n    K = 13.0\nsetk()"), NUMBER_CHANGED),
        ((NUMBER, "globals()['K'] = 13.0"), NUMBER_CHANGED),
        ((NUMBER, "exec('K = 13.0')"), NUMBER_CHANGED),
        ((NUMBER, "globals()['helper'] = lambda x: x + K"), "^helper is not the same"),
        ((NUMBER, "get_ipython().user_ns['helper'] = abs"), "^helper is not the same"),
        ((NUMBER, "globals().pop('K')"), "^K is defined in a cell but no longer in the kernel; define it in a cell"),
        ((OBJECT, "for one in [cfg]:\n    vars(one)['k'] = 13.0"), OBJECT_CHANGED),
        ((OBJECT, "def bump():\n    cfg.k = 13.0", "bump()"), OBJECT_CHANGED),
        ((OBJECT, "alias = cfg", "alias.k = 13.0"), OBJECT_CHANGED),
        ((CLASS, "1 / 0\n" + CLASS.replace("return x\n", "return -x\n")), "^Net is not the same"),
        ((CLASS, "alias = Net", "alias.forward = lambda self, x: 3"), "^Net is not the same"),
        ((ARRAY, "alias = data", "alias[1] = 7"), "^data is not the same"),
        ((LIST, "alias = data[1]", "alias['a'] = (2.0, 0)"), "^data is .* in the cells that define it and .* in the k"),
    ],
)
def test_a_change_that_no_statement_shows_is_refused(
    monkeypatch: pytest.MonkeyPatch, cells: tuple[str, ...], message: str
) -> None:
    kernel = Kernel(monkeypatch)
    kernel.execute(IMPORTS, cells[0], STUDY)
    kernel.load()
    kernel.execute(*cells[1:])
    with pytest.raises(KymographError, match=message):
        kernel.load()
    kernel.execute(cells[0])
    kernel.load()


def test_a_change_of_what_the_study_was_made_with_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    kernel.execute(
        IMPORTS, "rate = 0.1", "exec('rate = 0.2')", STUDY.replace("0.1", "rate").replace("helper(lr)", "lr")
    )
    with pytest.raises(KymographError, match=r"^mine is not the same in the cells that define it and in the kernel"):
        kernel.load()


CHANGING = "calls = []\n\n\ndef helper(x):\n    calls.append(x)\n    return len(calls)"
DEFINITIONS = """import dataclasses, enum, functools, types
import numpy as np
import torch

@dataclasses.dataclass
class Settings:
    "Some settings."
    width: int = 3
    kind: "Kind | None" = None
    extra: list = dataclasses.field(default_factory=list)

class Kind(enum.Enum):
    ONE = 1
    TWO = "two"

class Net(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return super().forward(x)

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

def outer(scale):
    def inner(x: int) -> float:
        try:
            return sum(one * scale for one in range(x) if one in {1, 2, "three"})
        except ValueError as error:
            raise KeyError(x) from error
    return inner

@functools.cache
def cached(x):
    return x

@torch.no_grad()
def measured(x):
    return x

@property
def odd(self):
    return 1

settings = Settings(extra=[Kind.TWO, float("nan")])
settings.self = settings
values = {"a": np.arange(6).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "c": {1, "x"}, "d": range(3)}
made, part, dtype, opened = outer(2.0), functools.partial(outer, scale=3), torch.float32, open
net, generator, sine = Net(), torch.Generator(), np.sin
"""
USES = "(settings, Kind, Net, Square, cached, measured, odd, values, made, part, dtype, opened, net, generator, sine)"


def test_what_was_not_changed_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    kernel.execute(IMPORTS, CHANGING, STUDY)
    kernel.load().body(None)
    assert kernel.load().body(None) == {"x": 2}, "a study may change its own variables as it runs"
    kernel.execute(DEFINITIONS, STUDY.replace("helper(lr)", USES))
    kernel.execute("mine", "cached(2)\nmade(1)", DEFINITIONS)
    assert len(kernel.load().body(None)["x"]) == 15


SESSION = '''
import pathlib
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()


def cell(source):
    done = shell.run_cell(source, store_history=True)
    return done.error_before_exec or done.error_in_exec


HELPER = "def helper(x):\\n    return x.abs() * 1"
STUDY = """@ky.study(arms={"slow": {"lr": 0.1}, "fast": {"lr": 0.5}},
          claims=[ky.Claim.compare("distance", "fast", "<", "slow", margin=1.1)])
def descent(run: ky.ActiveRun, *, lr: float = 0.1, steps: int = 3):
    x = torch.randn((), generator=run.generator("start"))
    for step in run.steps(steps):
        x = x - lr * x
        run.log(distance=helper(x))
    return {"distance": helper(x)}"""
RUN = "store = ky.run(descent, n_seeds=6, engine=ENGINE, quiet=False)"
assert cell(f"import kymograph as ky\\nimport torch\\nENGINE = 'serial'") is None
assert cell(HELPER) is None and cell(STUDY) is None and cell(RUN) is None
first = {run.id for run in shell.user_ns["store"]}
assert len(first) == 12 and not shell.user_ns["store"].failed
assert cell("verdict, = descent.judge('runs')") is None
assert shell.user_ns["verdict"].outcome == "SUPPORTED", shell.user_ns["verdict"]
print("SAME", file=sys.stderr)
assert cell("descent") is None and cell(STUDY) is None and cell(RUN) is None
assert {run.id for run in shell.user_ns["store"]} == first
print("EDITED", file=sys.stderr)
assert cell(HELPER.replace("* 1", "* 2")) is None and cell(RUN) is None
second = {run.id: run for run in shell.user_ns["store"]}
assert not first & set(second)
assert cell("verdict, = descent.judge('runs')") is None 
assert "superseded" in str(shell.user_ns["verdict"].notes), shell.user_ns["verdict"].notes
print("BACK", file=sys.stderr)
assert cell(HELPER) is None and cell(RUN) is None
assert {run.id for run in shell.user_ns["store"]} == first
print("PROCESSES", file=sys.stderr)
assert cell("ENGINE = 'processes'") is None and cell(RUN.replace("n_seeds=6", "n_seeds=7")) is None
assert len(shell.user_ns["store"]) == 14 and not shell.user_ns["store"].failed
print("FAILED CELL", file=sys.stderr)
assert cell("1 / 0\\n" + STUDY.replace("lr * x", "lr * x * 2")) is not None
error = cell(RUN)
assert "was executed again and failed" not in str(error) and error is None
print("STALE", file=sys.stderr)
for change in (
    "1 / 0\\n" + HELPER.replace("* 1", "* 2"),
    "get_ipython().user_ns['helper'] = abs",
    "%time helper = abs",
    "exec('helper = abs')",
):
    cell(change)
    known = sorted(path.name for path in pathlib.Path("runs").rglob("*"))
    assert "helper is not the same in the cells that define it and in the kernel" in str(cell(RUN)), change
    assert known == sorted(path.name for path in pathlib.Path("runs").rglob("*")), change
    assert cell(HELPER) is None and cell(RUN) is None
assert cell("made = [ky.study(arms={'a': {}})(lambda run: {})]") is None
assert "neither in a file nor in a cell" in str(cell("ky.run(made[0])"))
'''


@pytest.mark.slow
def test_a_study_of_a_session_is_run_judged_found_again_and_edited(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", SESSION], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, same, edited, back, *_ = re.split(r"^[A-Z ]+$", done.stderr, flags=re.MULTILINE)
    assert "12/12" in first and "has changed" not in first + same
    assert "the code of descent has changed" in edited and "its runs are computed again" in edited
    assert "its earlier runs are current again" in back


TYPED = f"{IMPORTS}\n{STUDY.replace('helper(lr)', 'lr')}\n\nky.run(mine, [1], engine='serial', quiet=True)\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("-i", "-c", ""), ("-c", TYPED), ("program.py",)])
def test_a_study_whose_source_cannot_be_read_back_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Its identity would be that of the program which executes it, without the string that it is in."""
    (tmp_path / "study.txt").write_text(TYPED)
    (tmp_path / "program.py").write_text("exec(open('study.txt').read())\n")
    done = subprocess.run(
        [sys.executable, *words], input=TYPED, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert "the code of mine is neither in a file nor in a cell of a notebook" in done.stderr
    assert not (tmp_path / "runs").exists()
