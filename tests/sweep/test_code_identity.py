"""The hash of code covers what it imports, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kymograph._sweep.code_identity import code_text, dotted_name, source_files, source_hash


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
