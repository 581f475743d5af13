"""Studies by name: the registered ones, and a user's own as ``module:Name``, ``file.py`` or ``file.py:Name``.

A user's code is imported because the user names it, and never because a stored file does.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.registry import Registry
from kymograph.runs.declaration import Declaration
from kymograph.studies.base import Study
from kymograph.sweep.code_reference import CodeReference

STUDIES = Registry("kymograph.studies", "STUDY", noun="study")


def load_study(reference: str) -> Study:
    """Returns the study that ``reference`` names; a user-defined one knows the hash of its source.

    load_study("depth")              a registered study
    load_study("warmup.py")          the only study of a file
    load_study("warmup.py:Warmup")   a study of a file
    load_study("my.package:Warmup")  a study of a module that can be imported
    """
    return load_with_reference(reference)[0]


def load_with_reference(reference: str) -> tuple[Study, CodeReference]:
    """Returns the study that ``reference`` names, and where its code is, for a worker to load it too."""
    registered = STUDIES.parts()
    if reference in registered:
        module = registered[reference].module
        own = module.startswith(f"{STUDIES.package}.")
        code: CodeReference | None = CodeReference(STUDIES.attribute, module, user_defined=not own)
    else:
        code = _user_code(reference)
    if code is None:
        raise KymographError(f"there is no study {reference!r}{did_you_mean(reference, registered)}")
    study = code.load()
    if not isinstance(study, Study):
        raise KymographError(f"{reference!r} is not a study; it must be a subclass of kymograph.Study")
    if reference not in registered and study.name in registered:
        raise KymographError(f"{reference!r} calls itself {study.name!r}, which is taken; give it another name")
    return study, code


def list_studies() -> list[Study]:
    """Returns every registered study, in their order."""
    return [load_study(name) for name in STUDIES.names()]


def registered_study(name: str) -> Study | None:
    """Returns the registered study called ``name``, as stored runs name it; None if it is not registered.

    A name read from a file imports nothing else: whoever sent the file would choose what runs here.
    """
    return load_study(name) if name in STUDIES.parts() else None


def declaration_of(name: str, stored: Mapping[str, Declaration]) -> Declaration:
    """Returns what a study declares: as stored with its runs, else as registered, else nothing but its name."""
    if name in stored:
        return stored[name]
    study = registered_study(name)
    return Declaration(name) if study is None else study.declaration()


def _user_code(reference: str) -> CodeReference | None:
    """Returns where the code is that a user names; None if the words name no code."""
    head, _, name = reference.partition(":")
    if head.endswith(".py"):
        path = Path(head).resolve()
        if not path.is_file():
            raise KymographError(f"there is no file {head}")
        return _named(CodeReference(name, file=str(path)), reference)
    if not name:
        return None
    return CodeReference(name, module=head, search=(os.getcwd(),))


def _named(code: CodeReference, reference: str) -> CodeReference:
    """Returns the reference with the name of the file's only study, if it has no name yet."""
    if code.name:
        return code
    module = code.load_module()
    found: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Study) or (_is_study_class(value) and value.__module__ == module.__name__):
            found.setdefault(id(value), name)  # an alias such as ``STUDY = Warmup`` is the same study
    own = list(found.values())
    if len(own) != 1:
        what = f"the studies {', '.join(own)}; choose one with {reference}:NAME" if own else "no study"
        raise KymographError(f"{reference} defines {what}")
    return replace(code, name=own[0])


def _is_study_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Study) and not inspect.isabstract(value)
