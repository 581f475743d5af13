"""The code that runs is the code that is hashed, however it is named."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._sweep import code_loading
from kymograph._sweep.code_loading import CodeReference

STUDY = "from {helper} import K\nclass Mom:\n    k = K\n"


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what a test imports."""
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.setattr(code_loading, "_added", [])
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
    before = list(code_loading._cached)

    @code_loading.cleared_on_reimport
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
        code_loading.forget_directory(tmp_path)
        assert instance.cache_info().currsize == 0
    finally:
        code_loading._cached[:] = before
