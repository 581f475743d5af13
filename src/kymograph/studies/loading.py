"""Studies by name: registered ones, and user-defined ones as ``module:Name``, ``file.py`` or ``file.py:Name``.

User code is imported only if the user names it or asks for every installed study, never because a stored file names
it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.io.files import real_path
from kymograph.registry import Registry
from kymograph.runs.declaration import Declaration
from kymograph.studies.study import Study, check_study
from kymograph.sweep.code_identity import CodeReference

STUDIES = Registry("kymograph.studies", attribute="STUDY", noun="study")


def load_study(reference: str) -> Study:
    """Returns the study that ``reference`` names; a user-defined one knows the hash of its source.

    load_study("depth")              a registered study
    load_study("warmup.py")          the only study of a file
    load_study("warmup.py:Warmup")   a study of a file
    load_study("warmup")             the only study of a package in the current directory
    load_study("my.package:Warmup")  a study of a module that can be imported
    """
    return load_with_reference(reference)[0]


def load_with_reference(reference: str) -> tuple[Study, CodeReference]:
    """Returns the study that ``reference`` names, and a reference to its code, so that a worker can load it too."""
    registered = STUDIES.parts()
    if reference in registered:
        return _load_registered(reference)
    code = _user_code(reference)
    if code is None:
        raise KymographError(f"there is no study {reference!r}{did_you_mean(reference, registered)}")
    study = _checked(code, repr(reference))
    if study.name in registered:
        if registered[study.name].file is None or registered[study.name].file != code.path():
            raise KymographError(f"{reference!r} calls itself {study.name!r}, which is taken; give it another name")
        return _load_registered(study.name)  # it is the registered study, named by its file or module
    return study, code


def with_reference(study: Study) -> tuple[Study, CodeReference]:
    """Returns a study of this process with its source hash set, and a reference to its code."""
    if study.name in STUDIES.parts() and STUDIES.is_built_in(study.name):
        return _load_registered(study.name)
    kind = type(study)
    home = sys.modules.get(kind.__module__)
    file = getattr(home, "__file__", None)
    if home is None or file is None:
        raise KymographError(
            f"the code of {study.name} is not in a file, but the source is part of a run's identity; save it in a file"
        )
    names = [name for name, value in vars(home).items() if value is study or value is kind]
    code = CodeReference(names[0] if names else kind.__name__, file=str(Path(file).resolve()))
    study.source = code.current_source()
    return study, code


def _load_registered(name: str) -> tuple[Study, CodeReference]:
    """Returns a registered study, and a reference to its code."""
    module = STUDIES.part(name).module
    code = CodeReference(STUDIES.attribute_of(name), module, user_defined=not STUDIES.is_built_in(name))
    study = _checked(code, f"the registered study {name!r} ({module})")
    if study.name != name:
        raise KymographError(
            f"{module} is registered as the study {name!r} and calls itself {study.name!r}; rename one"
        )
    return study, code


def _checked(code: CodeReference, what: str) -> Study:
    """Returns the study that the code defines; raises if it is not a study, or is incomplete."""
    study = code.load()
    if not isinstance(study, Study):
        raise KymographError(f"{what} is not a study; it must be a subclass of kymograph.Study")
    check_study(study, what)
    return study


def list_studies() -> list[Study]:
    """Returns every registered study, in their order; one that cannot be loaded is left out, with a warning.

    >>> [study.name for study in kymograph.list_studies()]      # ["clipping", "depth", ...]
    """
    found = []
    for name in STUDIES.names():
        try:
            found.append(load_study(name))
        except KymographError as error:
            print(f"warning: {error}", file=sys.stderr)
    return found


def built_in_studies() -> list[Study]:
    """Returns the studies of this package, which need no user code."""
    return [study for name in STUDIES.names() if (study := registered_study(name)) is not None]


def registered_study(name: str) -> Study | None:
    """Returns the built-in study called ``name``, as stored runs name it; None if there is none.

    A name read from a file never imports anything else, not even an installed user-defined study: the author of the
    file would choose what code runs here.
    """
    if not STUDIES.is_built_in(name):
        return None
    return CodeReference(STUDIES.attribute_of(name), STUDIES.parts()[name].module, user_defined=False).load()


def declaration_of(name: str, stored: Mapping[str, Declaration]) -> Declaration:
    """Returns what a study declares: as stored with its runs, else as built in, else nothing but its name."""
    if name in stored:
        return stored[name]
    study = registered_study(name)
    return Declaration(name) if study is None else study.declaration()


def _user_code(reference: str) -> CodeReference | None:
    """Returns a reference to the code that a user names; None if the text names no code."""
    head, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    package = Path(head or ".") / "__init__.py"
    if head.endswith(".py") or (head and package.is_file() and (not name or not head.isidentifier())):
        path = real_path(package if head and package.is_file() else head)
        if not path.is_file():
            raise KymographError(f"there is no file {head}")
        return _named(CodeReference(name, file=str(path)), head)
    if not name or not head:
        return None
    return CodeReference(name, module=head, search=(os.getcwd(),))


def _named(code: CodeReference, head: str) -> CodeReference:
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
        what = f"the studies {', '.join(own)}; choose one with {head}:NAME" if own else "no study"
        raise KymographError(f"{head} defines {what}{'' if own else _abstract(module)}")
    return replace(code, name=own[0])


def _is_study_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Study) and not inspect.isabstract(value)


def _abstract(module: Any) -> str:
    """Returns what an unfinished study of the module lacks, if there is one."""
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Study) and value.__module__ == module.__name__:
            return f": {name} lacks {' and '.join(sorted(value.__abstractmethods__))}"
    return ""
