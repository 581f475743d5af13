"""A new study from a template: a file that runs, and its test."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from kymograph.errors import KymographError, UsageError
from kymograph.runs.files import make_directory, write_atomically
from kymograph.studies.loading import STUDIES

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class NewStudy:
    """The files that were written, and the study's name."""

    name: str
    study: Path
    test: Path


def new_study(name: str, directory: str | Path = ".") -> NewStudy:
    """Writes ``NAME.py``, a study that compares two arms on embedded data, and ``test_NAME.py`` into ``directory``.

    Existing files are not overwritten; a call that was interrupted between the two files can be repeated.
    """
    _check_name(name)
    folder = Path(directory)
    title = name.removesuffix("_study") or name
    made = NewStudy(title, folder / f"{name}.py", folder / f"test_{name}.py")
    words = {"module": name, "function": f"{title}_study"}
    contents = {
        path: Template((TEMPLATES / template).read_text()).substitute(words).encode()
        for path, template in ((made.study, "study.py.txt"), (made.test, "test_study.py.txt"))
    }
    for path in contents:
        if path.exists() and (made.test.exists() or not _holds(path, contents[path])):
            raise KymographError(f"{path} exists, and is not overwritten; choose another name")
    if not made.study.exists():
        _check_module(name)
    make_directory(folder)
    for path, content in contents.items():
        write_atomically(path, content)
    return made


def _holds(path: Path, content: bytes) -> bool:
    """Returns whether a file is what an earlier attempt wrote."""
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _check_name(name: str) -> None:
    """Raises unless the name is valid for a Python module and not taken by a study."""
    plain = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name).strip("_").lower()
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        hint = f"; try {plain}" if plain.isidentifier() and plain.isascii() and not keyword.iskeyword(plain) else ""
        raise UsageError(f"{name!r} cannot be the name of a Python file: use letters, digits and underscores{hint}")
    if name.removesuffix("_study") in STUDIES.names():
        raise UsageError(f"there is already a study called {name.removesuffix('_study')}; choose another name")


def _check_module(name: str) -> None:
    """Raises if a file of this name would hide an existing module."""
    try:
        known = name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        known = False
    if known:
        raise UsageError(f"{name}.py would hide the Python module {name}; choose another name")
