"""A user-defined study's code inside an order, for a worker that does not have its files, or has different ones."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kymograph.errors import KymographError
from kymograph.foreign.files import MAX_SOURCE, is_file, read_bytes
from kymograph.runs.files import make_directory, write_atomically
from kymograph.runs.processes import temporary_directory
from kymograph.sweep.code_reference import CodeReference
from kymograph.sweep.source_hash import importable_path, source_hash

_unpacked: dict[str, tempfile.TemporaryDirectory[str]] = {}
"""The temporary directories with code that came with orders, by source hash; removed when the process ends."""


@dataclass(frozen=True)
class ShippedCode:
    """The text of every file of a study's code, by path relative to a directory from which it can be imported."""

    source: str
    """The hash of the files, as `source_hash` computes it."""
    main: str
    """The path of the file that defines the study."""
    files: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Returns the code as a JSON-compatible dictionary."""
        return asdict(self)

    def unpacked(self, code: CodeReference) -> CodeReference:
        """Writes the files to a temporary directory of this process; returns a reference to ``code`` there."""
        if self.source not in _unpacked:
            if any({"..", "/"} & {*PurePosixPath(name).parts} for name in (self.main, *self.files)):
                raise KymographError("an order names a file outside its own directory; it was not computed")
            _unpacked[self.source] = temporary_directory("order")
        home = Path(_unpacked[self.source].name)
        for name, text in self.files.items():
            make_directory((home / name).parent)
            write_atomically(home / name, text.encode("utf-8", "surrogateescape"))
        if code.file:
            return CodeReference(code.name, file=str(home / self.main))
        return CodeReference(code.name, code.module, search=(str(home),))


def ship(code: CodeReference) -> ShippedCode | None:
    """Returns the current source of ``code``; None if it is built in or in no file."""
    path = code.path() if code.user_defined and code.module != "__main__" else None
    if path is None:
        return None
    files = code.files()
    inside = {file: str(importable_path(name, file)) for name, file in files.items()}
    texts = {name: read_bytes(file, MAX_SOURCE).decode("utf-8", "surrogateescape") for file, name in inside.items()}
    return ShippedCode(source_hash(files), inside[path.resolve()], texts)


def is_here(code: CodeReference, shipped: ShippedCode | None, *, exactly: bool) -> bool:
    """Returns whether this machine has the code where the order says and, if ``exactly``, with the same source."""
    if shipped is None:
        return True
    path = code.path()
    if path is None or not is_file(path):
        return False
    return not exactly or source_hash(code.files()) == shipped.source
