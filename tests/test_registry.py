from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.registry import Registry, declared

REGISTRIES = {
    "kymograph.studies": "STUDY",
    "kymograph.data": "load",
    "kymograph.models": "build",
    "kymograph.rules": "build",
    "kymograph.figures": "draw",
    "kymograph.sweep.engines": "Engine",
    "kymograph.cli.verbs": "main",
    "kymograph.analysis.nulls": "draw",
    "kymograph.runs.formats": "write",
}


def test_a_declaration_is_read_from_the_source_and_not_run() -> None:
    assert declared('import nothing_of_that_name\nPART = {"about": "x", "order": 2}\n') == {"about": "x", "order": 2}
    assert declared('PART: dict[str, object] = {"about": "y"}\n') == {"about": "y"}
    for source in (
        "x = 1\n",
        "PART = compute()\n",
        "def f():\n    PART = {}\n",
        "PART = [1]\n",
        "PART = {\n",
        "# PART\n",
    ):
        assert declared(source) is None, source


@pytest.mark.parametrize("package", REGISTRIES)
def test_every_part_of_the_tree_says_what_it_is(package: str) -> None:
    parts = Registry(package, REGISTRIES[package]).parts()
    assert parts and all(part.about for part in parts.values())
    assert list(parts) == sorted(parts, key=lambda name: (parts[name].facts.get("order", 1000), name))


def test_listing_imports_no_part() -> None:
    names = ", ".join(repr(package) for package in REGISTRIES)
    code = (
        f"import sys\nfrom kymograph.registry import Registry\nfor package in ({names}):\n"
        "    assert Registry(package, '').names()\n"
        "sys.exit(', '.join({'torch', 'tyro', 'matplotlib', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_part_is_one_sentence_with_the_nearest_name() -> None:
    with pytest.raises(KymographError, match="there is no data set 'digit'; did you mean 'digits'"):
        Registry("kymograph.data", "load", noun="data set").part("digit")


def test_a_part_that_lacks_what_its_kind_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text('PART = {"about": "a part"}\n')
    (package / "two_words.py").write_text('PART = {"about": "imports what is absent"}\nimport absent_of_mine\n')
    (package / "support.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("parts_of_mine", "make", noun="thing")
    assert registry.names() == ["one", "two-words"]
    with pytest.raises(KymographError, match=r"parts_of_mine\.one defines no 'make', which every thing needs"):
        registry.load("one")
    with pytest.raises(KymographError, match="'two-words' cannot be loaded: No module named 'absent_of_mine'"):
        registry.load("two-words")
