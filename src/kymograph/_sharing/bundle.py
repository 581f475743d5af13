"""A directory of runs as one file: runs, claims, log, the users' code behind them and a report, each with its hash.

The file is a zip archive with a manifest, and it ends with the SHA-256 of everything before: no byte, not even one that
zip readers ignore, can change unnoticed. Reading a bundle trusts no name in it and executes nothing from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kymograph._claims.registration import log_problems
from kymograph._errors import KymographError
from kymograph._io.documents import parse_json
from kymograph._io.files import (
    MAX_TABLE,
    MAX_TENSORS,
    check_listing,
    check_replaceable,
    is_directory,
    is_file,
    opened,
    real_path,
)
from kymograph._io.processes import temporary_directory
from kymograph._io.writing import SCHEMA, make_directory, write_atomically, written_atomically
from kymograph._runs.directory import Directory
from kymograph._runs.locating import find_runs
from kymograph._runs.store import read_declarations
from kymograph._sharing.packed_code import (
    CODE,
    PARTS,
    PackedCode,
    code_problems,
    packed_code,
    stage_code,
    unload_bundle,
)
from kymograph._sharing.thin_copy import write_thin_copy
from kymograph._studies.study import Study
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.heartbeat import PARTIAL
from kymograph._wording import counted

MANIFEST, RUNS, REPORT = "manifest.json", "runs", "report.html"
_NOT_PACKED = ("figures", REPORT)
"""Derived from the runs, so not packed; the bundle has its own report."""
_MOST_BYTES = 64 * 2**30
_MOST_LISTING, _MOST_MANIFEST = 2**25, 2**26
"""The most bytes of the archive's own list of files and of the manifest; ten thousand runs take under a third."""
_DATE = (1980, 1, 1, 0, 0, 0)  # the same runs give the same bytes
_CHUNK = 2**20
_LISTING_ENTRY = 46 + 24  # without the name: the fixed part, and 64-bit sizes where they are needed
_SEAL, _DIGITS = b"sha256 ", 64


@dataclass(frozen=True)
class Unpacked:
    """A bundle in a temporary directory."""

    runs: Path
    code: Mapping[str, PackedCode]
    """Where the code of its studies is, by name: user-defined ones, and those with users' parts."""
    problems: tuple[str, ...]
    """Files that are missing, were added, or do not match their hash, and code that did not make the runs."""
    digest: str
    """The SHA-256 of the manifest, which covers everything in the bundle."""


@dataclass(frozen=True)
class _Source:
    """A file to pack, as it was when packing began."""

    path: Path
    size: int
    changed: int
    """When its content last changed, in nanoseconds."""


def write_bundle(
    root: str | Path, output: str | Path, codes: Mapping[str, CodeReference] | None = None, thin: bool = False
) -> str:
    """Packs a directory of runs into ``output``; returns the SHA-256 of the manifest, which covers everything.

    ``codes`` says where the code of user-defined studies is, by name. It is packed with the local modules that it
    imports, and so are the users' parts that the runs were made with. Raises if a file cannot be packed, or if the code
    is not what made the runs. Code that is not here is left out, with a note. A ``thin`` bundle has
    no trained networks, no per-step series (`kymograph._runs.thin_run`) and no report.
    """
    directory, target = Path(root), Path(output)
    check_replaceable(target)
    if not is_directory(directory):
        raise KymographError(f"there is no directory {directory}; name a directory of runs")
    before = _listing(directory, target)
    read = Directory(directory).checked()
    codes = dict(codes or {})
    studies = {name: code.load() for name, code in codes.items()}
    with temporary_directory("bundle") as temporary:
        stage = Path(temporary)
        manifest, notes = stage_code(stage, read, codes, studies)
        wrong = [*(run.reason for run in read.damaged), *log_problems(read.log)]
        if astray := read.without_entries(read.store):
            wrong.append(f"{counted(len(astray), 'run refers', 'runs refer')} to entries that the log does not have")
        notes = [*notes, *(f"{reason}; the bundle will not verify" for reason in wrong)]
        if thin:
            write_thin_copy(read, stage / RUNS)
        else:
            write_atomically(stage / REPORT, _report(read, studies).encode("utf-8", "replace"))
        staged = {path.relative_to(stage).as_posix(): _source(path) for path in stage.rglob("*") if path.is_file()}
        files = staged if thin else {**{f"{RUNS}/{name}": source for name, source in before.items()}, **staged}
        _check_number(files, directory)
        make_directory(target.parent)
        with written_atomically(target, readable=True) as file:
            digest = _pack(file, files, manifest)
            if _listing(directory, target) != before:
                raise KymographError(f"the runs in {directory} changed while they were packed; wait for their sweep")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return digest


def _listing(root: Path, output: Path) -> dict[str, _Source]:
    """Returns the files of a directory of runs, by name, without hidden files, unfinished runs and derived files.

    A link is an error, because its target would be missing on another machine.
    """
    sources = {}
    bundle = real_path(output)
    kept = {str(path) for run in find_runs(root).directories for path in (run, run.parent)}
    for directory, names, files in os.walk(root, onerror=_unreadable):
        parent = Path(directory)
        skipped = {name for name in (*names, *files) if name.startswith(".") or name.endswith(PARTIAL)}
        skipped |= {*_NOT_PACKED} if parent == root else set()
        skipped -= {name for name in names if f"{parent / name}" in kept}  # runs, however their study is called
        names[:] = sorted({*names} - skipped)
        for name in (*names, *sorted({*files} - skipped)):
            path = parent / name
            if path.is_symlink():
                raise KymographError(f"{path} is a link; replace it with its target, and bundle again")
            if name in names or (name == output.name and real_path(path) == bundle):
                continue
            inside = path.relative_to(root).as_posix()
            if re.search(r"[\\\ud800-\udfff]", inside):  # a backslash, or bytes that are not text
                raise KymographError(f"{inside!r} is not a valid file name in a bundle; rename it or move it away")
            sources[inside] = _source(path)
    return sources


def _unreadable(error: OSError) -> None:
    raise KymographError(f"cannot read {error.filename}: {error.strerror}") from None


def _source(path: Path) -> _Source:
    try:
        status = path.stat()
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise KymographError(f"{path} is not a file; move it away, and bundle again")
    if status.st_size > (MAX_TABLE if path.suffix in (".json", ".jsonl") else MAX_TENSORS):
        raise KymographError(f"{path} is larger than any record that kymograph writes; move it away, and bundle again")
    return _Source(path, status.st_size, status.st_mtime_ns)


def _check_number(names: Iterable[str], directory: Path) -> None:
    """Raises if a bundle of files with these names could not be read again, before hours are spent on packing it."""
    listing = sum(_LISTING_ENTRY + len(name.encode()) for name in (*names, MANIFEST))
    manifest = sum(len(json.dumps(name)) + _DIGITS + len(',\n  : ""') for name in names)
    if listing > _MOST_LISTING or manifest > 0.9 * _MOST_MANIFEST:  # the rest is for the code
        raise KymographError(f"{directory} has more files than a bundle can hold; bundle its studies separately")


def _report(directory: Directory, studies: Mapping[str, Study[Any]]) -> str:
    """Returns the report of the runs; its time stamp is the log's, so that the same runs give the same bytes."""
    from kymograph._claims.judge import judge
    from kymograph._pictures.report_page.page import build_page  # loads plotting code, which verifying does not need

    verdicts = judge(directory, studies=studies.values())
    times = [entry.time for entry in directory.log.entries.values()]
    return build_page(
        directory.store,
        verdicts,
        now=f"for a bundle, from a log that ends {max(times)}" if times else "for a bundle",
    )


def _pack(file: IO[bytes], files: Mapping[str, _Source], code: Mapping[str, Any]) -> str:
    """Writes the archive, reading every file once; returns the SHA-256 of its manifest, which lists ``code`` too."""
    hashes = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, source in sorted(files.items()):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, source.size
            total = hashlib.sha256()
            with bundle.open(info, "w") as member:
                for chunk in _content(source):
                    total.update(chunk)
                    member.write(chunk)
            hashes[name] = total.hexdigest()
        manifest = json.dumps({"schema": SCHEMA, "files": hashes, **code}, indent=1, sort_keys=True).encode()
        bundle.writestr(zipfile.ZipInfo(MANIFEST, _DATE), manifest, zipfile.ZIP_DEFLATED)
        bundle.comment = _SEAL + b"0" * _DIGITS
    seal = _hash_before_seal(file)
    file.seek(-_DIGITS, os.SEEK_END)
    file.write(seal)
    return hashlib.sha256(manifest).hexdigest()


def _content(source: _Source) -> Iterator[bytes]:
    """Yields a file's content in chunks; raises if its size has changed since packing began."""
    size = 0
    try:
        with opened(source.path, _MOST_BYTES, follow=False) as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                if size > source.size:
                    break
                yield chunk
    except OSError as error:
        raise KymographError(f"cannot read {source.path}: {error.strerror}") from None
    if size != source.size:
        raise KymographError(f"{source.path} changed while it was packed; bundle again when nothing writes to it")


def _hash_before_seal(file: IO[bytes]) -> bytes:
    """Returns the SHA-256, in hex digits, of a file without its last 64 bytes, at which it leaves the position."""
    left = file.seek(0, os.SEEK_END) - _DIGITS
    file.seek(0)
    total = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(_CHUNK, left))):
        total.update(chunk)
        left -= len(chunk)
    return total.hexdigest().encode()


@contextlib.contextmanager
def unpacked(path: str | Path) -> Iterator[Unpacked]:
    """Unpacks a bundle into a temporary directory for the length of a ``with`` block; runs nothing from it."""
    with temporary_directory("bundle") as temporary:
        directory = Path(temporary)
        try:
            try:
                with opened(path, _MOST_BYTES) as file:
                    bundle = _read(file, path, directory)
            except KymographError:
                raise
            except OSError as error:  # no permission, or no space left in the temporary directory
                raise KymographError(f"cannot unpack {path}: {error.strerror or error}") from None
            except Exception:  # a hostile archive can fail in any way
                raise KymographError(f"{path} is cut off, was changed, or is not a bundle of runs") from None
            yield bundle
        finally:
            unload_bundle(directory)


@contextlib.contextmanager
def opened_runs(path: str | Path) -> Iterator[Path]:
    """Yields the directory of runs at ``path``; a bundle is unpacked for the length of a ``with`` block.

    Raises if a bundle was changed since it was made: what is read from it would not be what its maker packed.
    """
    if not is_file(path):
        yield Path(path)
        return
    with unpacked(path) as bundle:
        if bundle.problems:
            raise KymographError(f"{path} cannot be used: {bundle.problems[0]}; `kymograph verify {path}` lists more")
        yield bundle.runs


def _read(file: IO[bytes], path: str | Path, directory: Path) -> Unpacked:
    """Unpacks what matches the manifest of an open bundle."""
    check_listing(file, _MOST_LISTING)
    with zipfile.ZipFile(file) as bundle:
        members = bundle.infolist()
        if sum(info.file_size for info in members) > _MOST_BYTES:
            raise KymographError(f"{path} is larger than any bundle that kymograph writes; it was not unpacked")
        sealed = _hash_before_seal(file) == file.read()  # after the checks: hashing gigabytes takes long
        if bundle.getinfo(MANIFEST).file_size > _MOST_MANIFEST:
            raise KymographError(f"the manifest of {path} is larger than any that kymograph writes; it was not read")
        content = bundle.read(MANIFEST)
        manifest = parse_json(content)
        if manifest["schema"] > SCHEMA:
            raise KymographError(f"{path} was written by a newer version; upgrade kymograph")
        problems = [] if sealed else ["it was changed since it was written"]
        problems += _unpack(bundle, manifest["files"], directory)
    make_directory(directory / RUNS)
    code = packed_code(directory, manifest)
    if not problems:
        problems += code_problems(directory, manifest, read_declarations(directory / RUNS))
    return Unpacked(directory / RUNS, code, tuple(problems), hashlib.sha256(content).hexdigest())


def _unpack(bundle: zipfile.ZipFile, hashes: Mapping[str, str], directory: Path) -> list[str]:
    """Writes the files that the manifest lists and that match it; returns what does not match."""
    names = Counter(bundle.namelist())
    problems = [f"{name} occurs {count} times" for name, count in names.items() if count > 1]
    problems += [f"{name} is not in the manifest" for name in names if name not in hashes and name != MANIFEST]
    for name, expected in hashes.items():
        parts = PurePosixPath(name).parts
        target = directory.joinpath(*parts)
        expected_here = parts[0] in (RUNS, CODE, PARTS) or name == REPORT
        if not expected_here or ".." in parts or "\\" in name or not target.is_relative_to(directory):
            problems.append(f"{name} lies outside the bundle")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            whole = _extract(bundle, name, target) == expected
        except OSError:
            raise
        except Exception:  # missing, or damaged in one of many ways
            problems.append(f"{name} is missing or damaged")
            target.unlink(missing_ok=True)
            continue
        if not whole:
            problems.append(f"{name} was changed since the bundle was made")
            target.unlink()
    return problems


def _extract(bundle: zipfile.ZipFile, name: str, target: Path) -> str:
    """Writes one member of the archive to ``target``; returns the SHA-256 of its content."""
    total = hashlib.sha256()
    with bundle.open(name) as member, target.open("wb") as file:
        while chunk := member.read(_CHUNK):
            total.update(chunk)
            file.write(chunk)
    return total.hexdigest()
