"""A directory of runs as one file: runs, claims, log, a user-defined study's code and the report, each with its hash.

The file is a zip archive with a manifest. Reading one trusts no name in it and runs nothing from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.archive import Archive
from kymograph.runs.files import SCHEMA, make_directory
from kymograph.sweep.code_reference import CodeReference

MANIFEST, RUNS, CODE = "manifest.json", "runs", "code"
_MOST_FILES, _MOST_BYTES = 1_000_000, 64 * 2**30
_DATE = (1980, 1, 1, 0, 0, 0)  # the same runs give the same bytes


@dataclass(frozen=True)
class Unpacked:
    """A bundle in a temporary directory."""

    runs: Path
    code: Mapping[str, CodeReference]
    """Where the code of its user-defined studies is, by the study's name."""
    problems: tuple[str, ...]
    """Files that are missing, were added, or do not match their hash."""


def write_bundle(root: str | Path, output: str | Path, codes: Mapping[str, CodeReference] | None = None) -> str:
    """Packs a directory of runs into ``output``; returns the SHA-256 of the manifest, which covers everything.

    ``codes`` says where the code of user-defined studies is, by name; it goes into the bundle with the local modules
    that it imports.
    """
    archive = Archive.open(root)
    files = {f"{RUNS}/{path.relative_to(archive.root).as_posix()}": path for path in _files(archive.root)}
    studies: dict[str, Any] = {}
    for name, code in (codes or {}).items():
        code.load_module()
        for local, file in code.files().items():
            inside = PurePosixPath(*local.split("."))
            inside = inside / "__init__.py" if file.name == "__init__.py" else inside.with_suffix(".py")
            files[f"{CODE}/{name}/{inside}"] = file
        studies[name] = {"name": code.name, "module": code.dotted_name(), "is_file": bool(code.file)}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(files.items())}
    manifest = json.dumps({"schema": SCHEMA, "files": hashes, "studies": studies}, indent=1, sort_keys=True).encode()
    target = Path(output)
    make_directory(target.parent)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as temporary:
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as bundle:
                bundle.writestr(zipfile.ZipInfo(MANIFEST, _DATE), manifest)
                for name, path in sorted(files.items()):
                    bundle.writestr(zipfile.ZipInfo(name, _DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
            Path(temporary.name).replace(target)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise
    return hashlib.sha256(manifest).hexdigest()


def _files(root: Path) -> Iterator[Path]:
    """Yields what belongs to a directory of runs: no hidden file, no unfinished run, no link."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") or part.endswith(".part") for part in parts)
        if not hidden and not path.is_symlink() and path.is_file() and parts[0] != "figures":
            yield path


@contextlib.contextmanager
def unpacked(path: str | Path) -> Iterator[Unpacked]:
    """Unpacks a bundle into a temporary directory for the length of a ``with`` block; runs nothing from it."""
    damaged = KymographError(f"{path} is cut off, was changed, or is not a bundle of kymograph")
    directory = Path(tempfile.mkdtemp(prefix="kymograph-bundle-"))
    try:
        try:
            with zipfile.ZipFile(path) as bundle:
                manifest = json.loads(bundle.read(MANIFEST))
                problems = _unpack(bundle, manifest["files"], directory)
            if manifest["schema"] > SCHEMA:
                raise KymographError(f"{path} was written by a newer version; upgrade kymograph")
            code = {name: _reference(directory / CODE / name, facts) for name, facts in manifest["studies"].items()}
        except KymographError:
            raise
        except Exception:  # a hostile archive can fail in any way
            raise damaged from None
        make_directory(directory / RUNS)
        yield Unpacked(directory / RUNS, code, tuple(problems))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _unpack(bundle: zipfile.ZipFile, hashes: Mapping[str, str], directory: Path) -> list[str]:
    """Writes the files that the manifest lists and that match it; returns what does not match."""
    members = {info.filename: info for info in bundle.infolist()}
    if len(members) > _MOST_FILES or sum(info.file_size for info in members.values()) > _MOST_BYTES:
        raise KymographError("the bundle is larger than any of ours; it was not unpacked")
    problems = [f"{name} is not in the manifest" for name in members if name not in hashes and name != MANIFEST]
    for name, expected in hashes.items():
        parts = PurePosixPath(name).parts
        if PurePosixPath(name).is_absolute() or ".." in parts or parts[0] not in (RUNS, CODE) or "\\" in name:
            problems.append(f"{name} lies outside the bundle")
            continue
        try:
            content = bundle.read(name)
        except Exception:
            problems.append(f"{name} is missing or damaged")
            continue
        if hashlib.sha256(content).hexdigest() != expected:
            problems.append(f"{name} was changed since the bundle was made")
            continue
        target = directory.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return problems


def _reference(directory: Path, facts: Mapping[str, Any]) -> CodeReference:
    """Returns where a study's code is inside an unpacked bundle; raises ValueError for a name that leads outside."""
    if not all(word.isidentifier() for word in facts["module"].split(".")):
        raise ValueError(facts["module"])
    if facts["is_file"]:
        base = directory.joinpath(*facts["module"].split("."))
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        return CodeReference(facts["name"], file=str(file))
    return CodeReference(facts["name"], module=facts["module"], search=(str(directory),))
