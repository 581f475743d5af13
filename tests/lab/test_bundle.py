from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.lab.bundle import MANIFEST, write_bundle
from kymograph.lab.verify import all_hold, verify_bundle
from kymograph.studies.loading import load_with_reference
from tests.studies.tossing import REFERENCE


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a user-defined study with its code."""
    root = tmp_path_factory.mktemp("bundle")
    kymograph.run(REFERENCE, n_seeds=3, out=root / "runs", quiet=True)
    write_bundle(root / "runs", root / "runs.zip", {"tossing": load_with_reference(REFERENCE)[1]})
    return root / "runs.zip"


def test_a_bundle_verifies_somewhere_else(bundle: Path) -> None:
    assert all_hold(verify_bundle(bundle))
    assert all_hold(verify_bundle(bundle, rerun=2, seed=0)), "with the code that is in it"


def test_the_same_runs_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    write_bundle(bundle.parent / "runs", tmp_path / "again.zip", {"tossing": load_with_reference(REFERENCE)[1]})
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()


def test_nothing_in_it_is_run_unless_it_is_asked_for(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("imported")

    monkeypatch.setattr("kymograph.sweep.code_reference.CodeReference.load_module", refuse)
    assert all_hold(verify_bundle(bundle))
    with pytest.raises(AssertionError, match="imported"):
        verify_bundle(bundle, rerun=1)


def test_one_changed_byte_does_not_verify(bundle: Path, tmp_path: Path) -> None:
    content = bundle.read_bytes()
    changed = tmp_path / "changed.zip"
    accepted = []
    for position in range(0, len(content), max(1, len(content) // 60)):
        changed.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        try:
            if all_hold(verify_bundle(changed)):
                accepted.append(position)
        except KymographError:
            continue
    for position in accepted:  # a few bytes of a zip archive mean nothing; then nothing that is read has changed
        changed.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with zipfile.ZipFile(changed) as one, zipfile.ZipFile(bundle) as other:
            assert {name: one.read(name) for name in one.namelist()} == {n: other.read(n) for n in other.namelist()}
    assert len(accepted) < 15


@pytest.mark.parametrize("name", ["../outside.txt", "/absolute.txt", "runs/../../outside.txt", "elsewhere/x"])
def test_names_that_lead_outside_are_refused(bundle: Path, tmp_path: Path, name: str) -> None:
    hostile = tmp_path / "hostile.zip"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(hostile, "w") as target:
        manifest = json.loads(source.read(MANIFEST))
        manifest["files"][name] = "0" * 64
        target.writestr(MANIFEST, json.dumps(manifest))
        for other in source.namelist():
            if other != MANIFEST:
                target.writestr(other, source.read(other))
        target.writestr(name, "x")
    findings = verify_bundle(hostile)
    assert not findings[0].holds and "outside the bundle" in findings[0].detail
    assert not (tmp_path / "outside.txt").exists()


def test_what_is_no_bundle_is_one_sentence(tmp_path: Path) -> None:
    for content in (b"", b"PK", b"x" * 100):
        (tmp_path / "x.zip").write_bytes(content)
        with pytest.raises(KymographError, match="not a bundle"):
            verify_bundle(tmp_path / "x.zip")
    with pytest.raises(KymographError, match="no directory or bundle"):
        verify_bundle(tmp_path / "absent.zip")
