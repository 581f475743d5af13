"""The code in a bundle: that of user-defined studies, and that of the users' parts that made its runs.

Both packing and unpacking check that the code's hash is the source recorded with the runs. Neither executes it: only
`PackedCode.load` does, when runs are to be computed again.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kymograph import _registry as registry
from kymograph._errors import KymographError
from kymograph._io.files import MAX_SOURCE, read_bytes
from kymograph._io.writing import make_directory, write_atomically
from kymograph._registry import source_file
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.spec import slug
from kymograph._runs.tuned import tuned_study
from kymograph._studies.loading import STUDIES, registered_study
from kymograph._studies.study import Study
from kymograph._sweep.code_identity import PartCode, importable_path, part_code, part_key, source_files, source_hash
from kymograph._sweep.code_loading import CodeReference, forget_directory

CODE, PARTS = "code", "parts"
_DIST_INFO = "kymograph_bundle-0.dist-info"


@dataclass(frozen=True)
class PackedCode(CodeReference):
    """Where the code of a study is in an unpacked bundle, and the hash that it must have."""

    source: str | None = None
    """The hash of a user-defined study's code; None for a built-in study that uses users' parts."""
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The users' parts in the bundle, by kind and name."""
    home: str = ""
    """The directory of the parts."""

    def load(self) -> Any:
        """Returns an instance of the study, with the bundle's parts; raises if code outside the bundle shadows it."""
        if self.parts:
            _register_parts(Path(self.home), self.parts)
        study = super().load()
        if study.source != self.source:
            raise KymographError(
                f"modules of the same names hide the code of {study.name} in the bundle; verify it where they are not "
                "installed"
            )
        return study


def stage_code(
    directory: Path, runs: Directory, codes: Mapping[str, CodeReference], studies: Mapping[str, Study[Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Copies the code behind an archive's runs into ``directory``; returns its manifest entries, and notes.

    Args:
        directory: an empty directory.
        runs: the directory of the runs.
        codes: where the code of user-defined studies is, by name; raises if it is not what made the runs.
        studies: these studies, loaded.
    """
    manifest: dict[str, Any] = {"studies": {}, "parts": {}}
    notes: list[str] = []
    for name, code in codes.items():
        if name not in runs.studies:
            raise KymographError(f"{runs.root} contains no runs of {name}; drop its --study")
        if code.user_defined:
            manifest["studies"][name] = _staged_study(directory, name, code, runs.declarations.get(name))
    for name in runs.studies:
        if tuned_study(name) is not None:
            continue  # tuning runs are made by the code of the study that they belong to
        study = studies.get(name) or registered_study(name)
        if study is None:
            notes.append(f"the code of {name} is not in the bundle; name it with --study")
            continue
        parts, missing = _parts_of(study, runs)
        notes += missing
        for key, part in parts.items():
            files = _copy(part.files, directory / PARTS)
            manifest["parts"][key] = {"group": part.group, "name": part.name, "module": part.module,
                                      "attribute": part.attribute, "source": part.source, "files": files}  # fmt: skip
        if parts:
            manifest["studies"].setdefault(name, None)  # a built-in study, which needs only its parts
    for problem in code_problems(directory, manifest, runs.declarations):
        raise KymographError(f"{problem}; restore the code that made them, or run the study again")
    return manifest, notes


def _staged_study(directory: Path, name: str, code: CodeReference, declared: Declaration | None) -> dict[str, Any]:
    files = code.files()
    source = source_hash(files)
    if declared is not None and declared.source != source:
        raise KymographError(
            f"the code of {name} was edited since its runs were made (source {declared.source} is now {source}); "
            "restore the code that made them, or run the study again"
        )
    _copy(files, directory / CODE / slug(name))
    return {"name": code.name, "module": code.dotted_name(), "is_file": bool(code.file), "source": source}


def _parts_of(study: Study[Any], runs: Directory) -> tuple[dict[str, PartCode], list[str]]:
    """Returns the code of the users' parts that made a study's current runs, and a note for each that is not here."""
    declared = runs.declarations.get(study.name)
    if declared is None or not declared.part_sources:
        return {}, []
    made = {key: source for parts in declared.part_sources.values() for key, source in parts.items()}
    here: dict[str, PartCode] = {}
    for spec in (*(run.spec for run in runs.store), *runs.planned):
        if spec.study == study.name and declared.part_sources.get(spec.source or "", {}).keys() - here.keys():
            try:
                parts = study.parts(study.config_type(**spec.settings))
                here |= {part_key(*part): code for part in parts if (code := part_code(*part)) is not None}
            except (KymographError, TypeError):
                continue  # a part that is not installed here, or settings that the study no longer has
    same = {key: code for key, code in here.items() if code.source == made.get(key)}
    why = {key: "it was edited since" if key in here else "it is not installed here" for key in made}
    return same, [f"the code of the {key} is not in the bundle: {why[key]}" for key in made if key not in same]


def _copy(files: Mapping[str, Path], directory: Path) -> list[str]:
    """Copies modules into ``directory`` so that they can be imported from it; returns their relative paths."""
    for name, file in files.items():
        target = directory / importable_path(name, file)
        make_directory(target.parent)
        write_atomically(target, read_bytes(file, MAX_SOURCE))
    return sorted(importable_path(name, file).as_posix() for name, file in files.items())


def code_problems(
    directory: Path, manifest: Mapping[str, Any], declarations: Mapping[str, Declaration]
) -> Iterator[str]:
    """Yields a sentence for all code in a bundle whose hash is not the source recorded with the runs."""
    for name, entry in manifest["studies"].items():
        if entry is not None:
            packed = _hash((directory / CODE / slug(name)).rglob("*.py"))
            declared = declarations[name].source if name in declarations else entry["source"]
            if not packed == entry["source"] == declared:
                yield f"the code of {name} is not what made its runs"
    made = {
        (key, source)
        for declaration in declarations.values()
        for parts in declaration.part_sources.values()
        for key, source in parts.items()
    }
    for key, entry in manifest["parts"].items():
        packed = _hash(directory.joinpath(PARTS, *PurePosixPath(file).parts) for file in entry["files"])
        if packed != entry["source"] or (key, packed) not in made:
            yield f"the code of the {key} is not what made its runs"


def _hash(paths: Iterable[Path]) -> str | None:
    """Returns the hash of some source files; None if one of them is missing."""
    files = {str(path): path for path in paths}
    return source_hash(files) if files and all(path.is_file() for path in files.values()) else None


def packed_code(directory: Path, manifest: Mapping[str, Any]) -> dict[str, PackedCode]:
    """Returns where the code is in an unpacked bundle, by study; raises ValueError for a name that leads out of it."""
    parts, home = manifest["parts"], str(directory / PARTS)
    for entry in parts.values():
        _check_words(entry["group"], entry["module"], *filter(None, [entry["attribute"]]))
        if set(entry["name"]) & set("=[]\r\n"):
            raise ValueError(entry["name"])
        if any({"..", "/"} & {*PurePosixPath(file).parts} for file in entry["files"]):
            raise ValueError(entry["files"])
    codes = {}
    for name, entry in manifest["studies"].items():
        if entry is None:
            if not STUDIES.is_built_in(name):
                raise ValueError(name)
            module = STUDIES.part(name).module
            codes[name] = PackedCode(STUDIES.attribute_of(name), module, user_defined=False, parts=parts, home=home)
            continue
        _check_words(entry["module"])
        search_path = directory / CODE / slug(name)
        base = search_path.joinpath(*entry["module"].split("."))
        file = base / "__init__.py" if base.is_dir() else base.with_name(f"{base.name}.py")
        where = {"file": str(file)} if entry["is_file"] else {"module": entry["module"], "search": (str(search_path),)}
        codes[name] = PackedCode(entry["name"], **where, source=entry["source"], parts=parts, home=home)
    return codes


def _check_words(*dotted: str) -> None:
    """Raises ValueError for a dotted name that is not one."""
    for name in dotted:
        if not all(map(str.isidentifier, name.split("."))):
            raise ValueError(name)


def unload_bundle(directory: Path) -> None:
    """Unloads everything imported from an unpacked bundle, so that the directory can be removed."""
    forget_directory(directory)
    registry.forget_packages()


def _register_parts(home: Path, parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Registers a bundle's parts as pip would, after all installed packages; raises if installed parts hide them."""
    if str(home) not in sys.path:
        groups: dict[str, list[str]] = {}
        for entry in parts.values():
            value = f"{entry['module']}:{entry['attribute']}" if entry["attribute"] else entry["module"]
            groups.setdefault(entry["group"], []).append(f"{entry['name']} = {value}")
        lines = [line for group, names in groups.items() for line in (f"[{group}]", *names)]
        (home / _DIST_INFO).mkdir(exist_ok=True)
        (home / _DIST_INFO / "METADATA").write_text("Metadata-Version: 2.1\nName: kymograph-bundle\nVersion: 0\n")
        (home / _DIST_INFO / "entry_points.txt").write_text("\n".join(lines) + "\n")
        sys.path.append(str(home))
        importlib.invalidate_caches()
        registry.forget_packages()
    for key, entry in parts.items():
        file = source_file(entry["module"])
        if file is None or source_hash(source_files(file, entry["module"])) != entry["source"]:
            raise KymographError(
                f"the {key} installed here is not the one in the bundle; verify it where it is not installed"
            )
