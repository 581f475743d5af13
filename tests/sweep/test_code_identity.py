"""The hash of code covers what it imports, and the code that runs is the code that is hashed, however it is named."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.sweep import code_identity
from kymograph.sweep.code_identity import CodeReference, code_text, dotted_name, source_files, source_hash


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


STUDY = "from {helper} import K\nclass Mom:\n    k = K\n"


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what a test imports."""
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.setattr(code_identity, "_added", [])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def by_file(path: Path) -> CodeReference:
    return CodeReference("Mom", file=str(path))


def test_a_module_that_was_imported_before_and_edited_since_is_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old code used to run under the new code's hash."""
    written(tmp_path / "mom.py", STUDY.format(helper="hlp"))
    written(tmp_path / "hlp.py", "K = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("mom").Mom.k == 1
    written(tmp_path / "hlp.py", "K = 2\n")
    study = CodeReference("Mom", module="mom").load()
    assert study.k == 2
    assert CodeReference("Mom", module="mom").load().source == study.source


@pytest.mark.parametrize("edited", ["mom.py", "hlp.py"])
def test_an_edit_of_the_same_length_in_the_same_second_is_seen(tmp_path: Path, edited: str) -> None:
    written(tmp_path / "mom.py", "from hlp import K\nclass Mom:\n    k = K + 1\n")
    written(tmp_path / "hlp.py", "K = 1\n")
    first = by_file(tmp_path / "mom.py").load()
    text = (tmp_path / edited).read_text()
    written(tmp_path / edited, text.replace("1", "5"))
    second = by_file(tmp_path / "mom.py").load()
    assert (first.k, second.k) == (2, 6) and first.source != second.source


def test_nothing_is_imported_again_without_an_edit(tmp_path: Path) -> None:
    written(tmp_path / "mom.py", STUDY.format(helper="hlp") + "    def late(self):\n        import later\n")
    written(tmp_path / "hlp.py", "K = 1\n")
    written(tmp_path / "later.py", "")
    first = by_file(tmp_path / "mom.py").load()
    first.late()
    assert type(by_file(tmp_path / "mom.py").load()) is type(first)


def test_studies_whose_helpers_share_a_name_keep_their_own(tmp_path: Path) -> None:
    for number, folder in enumerate("ab"):
        written(tmp_path / folder / "mom.py", STUDY.format(helper="hlp") + f"# {folder}\n")
        written(tmp_path / folder / "hlp.py", f"K = {number}\n")
    references = [by_file(tmp_path / folder / "mom.py") for folder in "aba"]
    studies = [reference.load() for reference in references]
    assert [study.k for study in studies] == [0, 1, 0]
    assert studies[0].source == studies[2].source != studies[1].source


def test_helper_packages_of_one_name_are_kept_apart_too(tmp_path: Path) -> None:
    for number, folder in enumerate("ab"):
        written(tmp_path / folder / "mom.py", STUDY.format(helper="hlp.deep"))
        written(tmp_path / folder / "hlp" / "__init__.py", "")
        written(tmp_path / folder / "hlp" / "deep.py", f"K = {number}\n")
    assert [by_file(tmp_path / folder / "mom.py").load().k for folder in "aba"] == [0, 1, 0]


def test_a_file_in_a_package_is_the_same_study_as_its_module(tmp_path: Path) -> None:
    """A file in a package could not use relative imports, and had another hash than its module."""
    written(tmp_path / "p2" / "__init__.py", "")
    path = written(tmp_path / "p2" / "mom.py", STUDY.format(helper=".hlp"))
    written(tmp_path / "p2" / "hlp.py", "K = 7\n")
    one = by_file(path).load()
    other = CodeReference("Mom", module="p2.mom", search=(str(tmp_path),)).load()
    assert one.k == 7 and type(one) is type(other) and one.source == other.source
    assert type(one).__module__ == "p2.mom"


def test_a_study_of_a_package_is_the_same_by_its_init_file(tmp_path: Path) -> None:
    path = written(tmp_path / "p3" / "__init__.py", STUDY.format(helper="p3.hlp"))
    written(tmp_path / "p3" / "hlp.py", "K = 7\n")
    one = by_file(path).load()
    assert one.source == CodeReference("Mom", module="p3", search=(str(tmp_path),)).load().source


def test_a_folder_without_init_gives_one_hash_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "lab_of_mine" / "mom.py", STUDY.format(helper="lab_of_mine.helpers"))
    written(tmp_path / "lab_of_mine" / "helpers.py", "K = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    sources = {by_file(path).load().source, CodeReference("Mom", module="lab_of_mine.mom").load().source}
    written(tmp_path / "lab_of_mine" / "helpers.py", "K = 4\n")
    again = by_file(path).load()
    assert len(sources) == 1 and again.k == 4 and again.source not in sources


def test_a_file_with_the_name_of_a_standard_module_hides_nothing(tmp_path: Path) -> None:
    import json

    path = written(tmp_path / "json.py", "class Mom:\n    k = 1\n")
    study = by_file(path).load()
    assert study.k == 1 and sys.modules["json"] is json
    written(path, "class Mom:\n    k = 2\n")
    assert by_file(path).load().k == 2


def test_directories_are_added_to_the_path_once_and_last(tmp_path: Path) -> None:
    for folder in "ab":
        written(tmp_path / folder / "mom.py", "class Mom: pass\n")
    before = list(sys.path)
    for folder in "abab":
        by_file(tmp_path / folder / "mom.py").load()
    assert sys.path == [*before, str(tmp_path / "b"), str(tmp_path / "a")]


def test_code_that_is_in_no_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = type(sys)("__main__")
    main.Mom = type("Mom", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(KymographError, match="__main__:Mom: its code is not in a file"):
        CodeReference("Mom", module="__main__").load()
    main.__file__ = os.fspath(written(tmp_path / "program.py", "class Mom: pass\n"))
    assert len(CodeReference("Mom", module="__main__").load().source) == 16


@pytest.mark.parametrize("text", ["class Mom:\n    def __init__(self): raise ValueError('no\\nway')\n", "Mom = 3\n"])
def test_what_cannot_be_made_a_study_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(KymographError, match=r"cannot load the study .*mom\.py:Mom: "):
        by_file(written(tmp_path / "mom.py", text)).load()


def test_caches_of_objects_that_users_code_made_are_cleared_with_it(tmp_path: Path) -> None:
    """A data set of a user's package used to be kept when the package was edited."""
    reference = by_file(written(tmp_path / "mom.py", "class Mom:\n    k = 1\n"))
    before = list(code_identity._cached)

    @code_identity.cleared_on_reimport
    @functools.lru_cache(maxsize=1)
    def instance() -> object:
        return reference.load()

    try:
        first = instance()
        reference.load()
        assert instance() is first, "nothing was edited"
        written(tmp_path / "mom.py", "class Mom:\n    k = 2\n")
        assert CodeReference("Mom", file=str(tmp_path / "mom.py")).load().k == 2
        assert instance.cache_info().currsize == 0
        assert instance() is not first
        code_identity.forget_directory(tmp_path)
        assert instance.cache_info().currsize == 0
    finally:
        code_identity._cached[:] = before
