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
from typing import Any, NamedTuple

from kymograph._errors import KymographError, did_you_mean
from kymograph._io.files import is_file, real_path
from kymograph._registry import Registry
from kymograph._runs.declaration import Declaration
from kymograph._studies.study import Study, check_study
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.notebook_code import reference_to_cells

STUDIES = Registry("kymograph.studies", attribute="STUDY", noun="study")


def load_study(reference: str) -> Study[Any]:
    """Returns the study that ``reference`` names.

    >>> ky.load_study("warmup.py")                 # the only study of a file
    <study warmup: Does warm-up lower the final sharpness?>
    >>> ky.load_study("warmup.py:warmup_study").name    # a study of a file, by its name there
    'warmup'

    ``depth`` is a registered study, ``my.package:Warmup`` a study of a module that can be imported, and a directory
    that is a package stands for the only study in it. A user-defined study knows the hash of its source.
    """
    return load_with_reference(reference)[0]


class LoadedStudy(NamedTuple):
    """A study, and a reference to its code, so that a worker can load it too."""

    study: Study[Any]
    code: CodeReference


def load_with_reference(study: str | Study[Any]) -> LoadedStudy:
    """Returns a study, and a reference to its code.

    ``study`` is what `load_study` takes, or a study of this process, whose source hash is set.
    """
    registered = STUDIES.parts()
    if not isinstance(study, str):
        return _load_registered(study.name) if STUDIES.is_built_in(study.name) else LoadedStudy(study, _code_of(study))
    if study in registered:
        return _load_registered(study)
    code = _user_code(study)
    if code is None:
        hint = f"; did you mean {study}.py?" if is_file(f"{study}.py") else did_you_mean(study, registered)
        raise KymographError(f"there is no study {study!r}{hint}")
    loaded = _checked(code, repr(study))
    if loaded.name in registered:
        if registered[loaded.name].file is None or registered[loaded.name].file != code.path():
            raise KymographError(f"{study!r} calls itself {loaded.name!r}, which is taken; give it another name")
        return _load_registered(loaded.name)  # it is the registered study, named by its file or module
    return LoadedStudy(loaded, code)


def _code_of(study: Study[Any]) -> CodeReference:
    """Returns a reference to the code of a study of this process, and sets the study's source hash."""
    kind = type(study)
    module = sys.modules.get(kind.__module__)
    named = [name for name, value in vars(module).items() if value is study or value is kind] if module else []
    # The function's or the class's own name, if it still has it: in a notebook, `_` may be the same study.
    name = kind.__name__ if kind.__name__ in named or not named else named[0]
    file = getattr(module, "__file__", None)
    code = None
    if kind.__module__ == "__main__":
        function = getattr(study, "body", None)
        code = reference_to_cells(study.name, name, function)
        typed_in = _file_of(function or next(filter(inspect.isfunction, vars(kind).values()), None))
        file = None if not is_file(typed_in) else file or typed_in  # what a program executes from a string is not in it
    if code is None and file is None:
        raise KymographError(
            f"the code of {study.name} is neither in a file nor in a cell of a notebook, but the source is part of a "
            "run's identity; save it in a file"
        )
    code = code or CodeReference(name, file=str(Path(str(file)).resolve()))
    study.source = code.current_source()
    return code


def _file_of(function: Any) -> str:
    """Returns the file in which a function was defined, which may not exist, e.g. ``<stdin>``."""
    return getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", "") if function else ""


def _load_registered(name: str) -> LoadedStudy:
    module = STUDIES.part(name).module
    code = CodeReference(STUDIES.attribute_of(name), module, user_defined=not STUDIES.is_built_in(name))
    study = _checked(code, f"the registered study {name!r} ({module})")
    if study.name != name:
        raise KymographError(
            f"{module} is registered as the study {name!r} and calls itself {study.name!r}; rename one"
        )
    return LoadedStudy(study, code)


def _checked(code: CodeReference, what: str) -> Study[Any]:
    """Returns the study that the code defines; raises if it is not a study, or is incomplete."""
    study = code.load()
    if not isinstance(study, Study):
        raise KymographError(f"{what} is not a study; it must be a subclass of kymograph.Study")
    check_study(study, what)
    return study


def list_studies() -> list[Study[Any]]:
    """Returns every registered study, in their order; one that cannot be loaded is left out, with a warning.

    >>> [study.question for study in ky.list_studies() if study.name == "depth"]
    ['Do residual connections rescue deep plain networks?']
    """
    studies = []
    for name in STUDIES.names():
        try:
            studies.append(load_study(name))
        except KymographError as error:
            print(f"warning: {error}", file=sys.stderr)
    return studies


def built_in_studies() -> list[Study[Any]]:
    """Returns the studies of this distribution, which need no user code."""
    return [study for name in STUDIES.names() if (study := registered_study(name)) is not None]


def registered_study(name: str) -> Study[Any] | None:
    """Returns the built-in study called ``name``, as stored runs name it; None if there is none.

    A name read from a file never imports anything else, not even an installed user-defined study: the author of the
    file would choose what code runs here.
    """
    if not STUDIES.is_built_in(name):
        return None
    return _load_registered(name)[0]


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
        return _with_name(CodeReference(name, file=str(path)), head)
    if not name or not head:
        return None
    return CodeReference(name, module=head, search=(os.getcwd(),))


def _with_name(code: CodeReference, head: str) -> CodeReference:
    """Returns the reference with the name of the file's only study, if it has no name yet."""
    if code.name:
        return code
    module = code.load_module()
    studies: dict[int, str] = {}
    abstract: list[tuple[str, type[Study[Any]]]] = []
    for name, value in vars(module).items():
        defined_here = isinstance(value, type) and issubclass(value, Study) and value.__module__ == module.__name__
        if defined_here and inspect.isabstract(value):
            abstract.append((name, value))
        elif defined_here or isinstance(value, Study):
            studies.setdefault(id(value), name)  # an alias such as ``STUDY = Warmup`` is the same study
    names = list(studies.values())
    if len(names) > 1:
        raise KymographError(f"{head} defines the studies {', '.join(names)}; choose one with {head}:NAME")
    if not names:
        lacking = [f": {name} lacks {' and '.join(sorted(kind.__abstractmethods__))}" for name, kind in abstract[:1]]
        raise KymographError(f"{head} defines no study{''.join(lacking)}")
    return replace(code, name=names[0])
