"""Where a study's code is, so that any process can load the same study: from a module, or from a file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kymograph.errors import KymographError
from kymograph.sweep.source_hash import source_files, source_hash

_SOURCE = "__kymograph_source__"
"""Where a module keeps the hash of the source that it was imported from."""


@dataclass(frozen=True)
class CodeReference:
    """Where a study's code is: a module that can be imported, or a file, and the name of the study in it."""

    name: str
    """The class, instance or function in the module."""
    module: str = ""
    file: str = ""
    """An absolute path, for a study that is run from its file."""
    search: tuple[str, ...] = ()
    """Directories that are searched for the module after everything installed."""
    user_defined: bool = True
    """Whether the code is a user's own, so that its hash is part of what its runs are."""

    def __str__(self) -> str:
        return f"{self.file or self.module}:{self.name}"

    def load(self) -> Any:
        """Returns an instance of the study, imported if it is not yet; a user-defined one knows its source's hash."""
        module = self.load_module()
        source = None
        if self.user_defined and module.__file__ is not None:
            module, source = self._as_it_is_now(module)
        found = getattr(module, self.name, None)
        if found is None:
            raise KymographError(f"cannot load the study {self}: {module.__name__} has no {self.name!r}")
        study = found() if isinstance(found, type) else found
        study.source = source
        return study

    def _as_it_is_now(self, module: ModuleType) -> tuple[ModuleType, str]:
        """Returns the module and its source's hash; imported again if the source was edited since, as in a notebook."""
        path = Path(module.__file__ or "")
        files = source_files(path, path.stem if self.file else module.__name__, self.search)
        source = source_hash(files)
        if getattr(module, _SOURCE, source) != source:
            for name, loaded in list(sys.modules.items()):
                if getattr(loaded, "__file__", None) in {str(file) for file in files.values()}:
                    del sys.modules[name]
            module = self.load_module()
        setattr(module, _SOURCE, source)
        return module, source

    def load_module(self) -> ModuleType:
        """Imports the module, if it is not imported yet; whatever goes wrong in it is one sentence."""
        for directory in self.search:
            if directory not in sys.path:
                sys.path.append(directory)  # last, so that it never hides an installed package
        try:
            return _module_from_file(Path(self.file)) if self.file else importlib.import_module(self.module)
        except Exception as error:  # a user's module can fail to load in any way
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise KymographError(f"cannot load the study {self}: {reason}") from None


def _module_from_file(path: Path) -> ModuleType:
    """Returns the module of a file, imported under the file's own name and kept like any other import."""
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    # A name that is taken, by the standard library say, gets a prefix, so that no import of anybody else changes.
    name = (
        path.stem if loaded is None and importlib.util.find_spec(path.stem) is None else f"kymograph_user_{path.stem}"
    )
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what the file imports from its own directory
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
