"""The hash of code covers what it imports, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kymograph._sweep.code_identity import (
    cells_hash,
    code_text,
    dotted_name,
    needed_cells,
    source_files,
    source_hash,
)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_local_modules_are_followed_and_installed_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        study="import numpy, kymograph\nimport near\nfrom pack.deep import thing\nimport json\n",
        near="from further import x\n",
        further="x = 1\n",
        pack__init="",
        pack__deep="from . import sibling\nfrom .sub import leaf\n",
        pack__sibling="",
        pack__sub__leaf="",
        unrelated="",
        json="hides nothing: the standard library comes first\n",
    )
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "sub" / "__init__.py").write_text("from ..sibling import y\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path[1:], str(tmp_path)])  # last, as a sweep puts it
    found = source_files(tmp_path / "study.py", "study")
    assert set(found) == {
        "study", "near", "further", "pack", "pack.deep", "pack.sibling", "pack.sub", "pack.sub.leaf",
    }  # fmt: skip


def test_the_hash_changes_with_any_of_them_and_with_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, study="import near\n", near="x = 1\n", far="y = 1\n")
    before = source_hash(source_files(tmp_path / "study.py", "study"))
    assert len(before) == 16
    write(tmp_path, far="y = 2\n")
    assert source_hash(source_files(tmp_path / "study.py", "study")) == before
    write(tmp_path, near="x = 2\n")
    changed = source_hash(source_files(tmp_path / "study.py", "study"))
    assert changed != before
    (tmp_path / "near.py").write_bytes(b"x = 2\r\n")
    assert source_hash(source_files(tmp_path / "study.py", "study")) == changed, "line endings are not an edit"


def test_a_study_inside_a_package_has_the_package_as_its_root(tmp_path: Path) -> None:
    write(tmp_path, top__inner__study="from ..shared import x\n", top__shared="x = 1\n")
    for package in ("top", "top/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    found = source_files(tmp_path / "top" / "inner" / "study.py", "top.inner.study")
    assert set(found) == {"top", "top.inner", "top.inner.study", "top.shared"}


def test_import_cycles_end(tmp_path: Path) -> None:
    write(tmp_path, study="import other\n", other="import study\n")
    assert set(source_files(tmp_path / "study.py", "study")) == {"study", "other"}


def test_a_local_module_outside_the_files_folder_is_part_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lab/mom.py` with `from lab.helpers import K`, and a package that is installed as editable, were not followed."""
    write(tmp_path, lab__mom="from lab.helpers import K\nimport edited\n", lab__helpers="K = 1\n", src__edited="")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "src")
    found = source_files(tmp_path / "lab" / "mom.py")
    assert set(found) == {"mom", "lab.helpers", "edited"}


def test_an_installed_package_is_its_own_source_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path / "site-packages",
        parcel__study="import parcel.near, theirs\nfrom . import beside\n",
        parcel__near="",
        parcel__beside="",
        theirs="",
    )
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    found = source_files(tmp_path / "site-packages" / "parcel" / "study.py", "parcel.study")
    assert set(found) == {"parcel.study", "parcel.near", "parcel.beside"}
    (tmp_path / "site-packages" / "parcel" / "__init__.py").write_text("")
    assert set(source_files(tmp_path / "site-packages" / "parcel" / "study.py")) == {"parcel", *found}


def test_a_file_is_named_from_the_top_of_its_packages(tmp_path: Path) -> None:
    write(tmp_path, top__inner__study="", alone__script="")
    for package in ("top", "top/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    assert dotted_name(tmp_path / "top" / "inner" / "study.py") == ("top.inner.study", tmp_path.resolve())
    assert dotted_name(tmp_path / "top" / "inner" / "__init__.py") == ("top.inner", tmp_path.resolve())
    assert dotted_name(tmp_path / "alone" / "script.py") == ("script", (tmp_path / "alone").resolve())


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("# a comment\nx = f(1)\n\n\ny = '''a\n  # b\n\n'''\n", True),
        ("x = f(1)   # why\ny = '''a\n  # b\n\n'''\n", True),
        ("x = f(2)\ny = '''a\n  # b\n\n'''\n", False),
        ("x = f(1)\ny = '''a\n  # c\n\n'''\n", False),
        ("x = f(1)\ny = '''a\n  # b\n'''\n", False),
        ("if True:\n    x = f(1)\ny = '''a\n  # b\n\n'''\n", False),
    ],
)
def test_comments_and_empty_lines_are_not_code_and_texts_are(other: str, same: bool) -> None:
    first = code_text(b"x = f(1)\ny = '''a\n  # b\n\n'''\n")
    assert (code_text(other.encode()) == first) is same


def test_what_is_no_python_is_hashed_as_it_is() -> None:
    assert code_text(b"x = (\n  # open\n") == b"x = (\n  # open\n"


IMPORTS = "import torch\nimport kymograph as ky"
BUILT = "rate = 0.1\ndef make(width):\n    return torch.nn.Linear(width, scale)"
CELL = """
model = make(3)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
with ky.record("a", arm="b", seed=1) as run:
    for step in run.steps(100):
        loss = model(torch.ones(3)).sum()
    print(loss, [one for one in range(3)])
"""


@pytest.mark.parametrize(
    "between",
    [[], ["print(rate)"], ["loss", "rate"], ["width = 8"], ["model.eval()"], ["print(torch.mean(loss))"], ["1 +"]],
)
def test_a_notebook_whose_cell_is_executed_again_has_the_same_hash(between: list[str]) -> None:
    first = [IMPORTS, "scale = 2", BUILT, CELL]
    assert cells_hash([*first, *between, CELL]) == cells_hash(first)
    assert cells_hash([IMPORTS, *between, "scale = 2  # two", BUILT, CELL]) == cells_hash(first), "in a new kernel"
    edited = [IMPORTS, "scale = 2", BUILT, CELL.replace("sum", "mean"), *between, CELL]
    assert cells_hash([*edited, CELL]) == cells_hash(edited)


@pytest.mark.parametrize(
    "between",
    [
        "rate = 0.2",
        "rate *= 2",
        "scale = 3",
        "if True:\n    rate = 0.2",
        "for rate in (1, 2): pass",
        "def make(width): ...",
        "from torch.nn import Linear as make",
        "torch.manual_seed(4)",
        "torch.backends.x = 3",
        "pretrain(make)",
        "from numpy import *",
        "def change():\n    global rate\n    rate = 2",
        "get_ipython().run_cell_magic('time', '', 'rate = 0.2')",
    ],
)
def test_a_notebook_in_which_something_that_a_cell_uses_has_changed_has_another_hash(between: str) -> None:
    first = [IMPORTS, "scale = 2", BUILT, CELL]
    assert cells_hash([*first, between, CELL]) != cells_hash(first)


def test_a_cell_below_a_magic_is_a_cell_and_an_edited_local_module_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_helper.py").write_text("x = 1")
    timed = "get_ipython().run_cell_magic('time', '', 'print(rate)')"
    assert needed_cells(["rate = 1", timed]) == ["rate = 1", timed]
    before = cells_hash(["import my_helper", "print(my_helper.x)"])
    (tmp_path / "my_helper.py").write_text("x = 2")
    assert cells_hash(["import my_helper", "print(my_helper.x)"]) != before
