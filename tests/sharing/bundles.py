"""Bundles that are read where nothing else can be imported, and bundles that somebody rewrote."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kymograph
from kymograph._sharing.bundle import MANIFEST
from kymograph._studies.loading import load_with_reference
from kymograph._sweep.code_loading import CodeReference
from tests.studies.tossing import REFERENCE


@functools.cache
def code() -> dict[str, CodeReference]:
    """Returns where the code of the bundled study is."""
    return {"tossing": load_with_reference(REFERENCE)[1]}


def elsewhere(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command where neither this directory nor what a test installs can be imported."""
    environment = {**os.environ, "PYTHONPATH": str(Path(kymograph.__file__).parents[1])}
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "kymograph", *words]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def rewritten(
    source: Path, target: Path, edit: Callable[[dict[str, Any]], object] = lambda manifest: None, **changes: bytes
) -> Path:
    """Writes a bundle anew, as somebody would who knows how, with other files (``_`` for ``/``) in it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        contents = {
            name: changes.get(name.replace("/", "_").replace(".", "_"), old.read(name)) for name in old.namelist()
        }
        manifest = json.loads(contents.pop(MANIFEST))
        manifest["files"] |= {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        edit(manifest)
        for name, content in contents.items():
            new.writestr(name, content)
        new.writestr(MANIFEST, json.dumps(manifest))
        new.comment = b"sha256 " + b"0" * 64
    whole = target.read_bytes()[:-64]
    target.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())
    return target
