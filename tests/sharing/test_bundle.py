from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path

import pytest

import kymograph
from kymograph._cli.main import main
from kymograph._errors import KymographError
from kymograph._sharing import bundle as bundling
from kymograph._sharing.bundle import MANIFEST, REPORT, unpacked, write_bundle
from kymograph._sharing.verify import all_hold, verify_bundle
from tests.sharing.bundles import code, elsewhere
from tests.studies.tossing import REFERENCE


def test_a_bundle_verifies_somewhere_else(bundle: Path, tmp_path: Path) -> None:
    assert all_hold(verify_bundle(bundle))
    found = elsewhere(tmp_path / "elsewhere", "verify", str(bundle), "--rerun", "2")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("the same bits") == 2, "with the code that is in it"


def test_the_command_prints_the_digest(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bundle", str(runs), "-o", str(tmp_path / "x.zip"), "--study", REFERENCE])
    assert ended.value.code == 0
    with unpacked(tmp_path / "x.zip") as found:
        assert capsys.readouterr().out == f"{tmp_path / 'x.zip'}\nbundle {found.digest[:16]}\n"


def test_the_same_runs_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    digest = write_bundle(bundle.parent / "runs", tmp_path / "again.zip", code())
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()
    with unpacked(bundle) as found:
        assert found.digest == digest


def test_nothing_in_it_is_run_unless_it_is_asked_for(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("imported")

    monkeypatch.setattr("kymograph._sweep.code_loading.CodeReference.load_module", refuse)
    assert all_hold(verify_bundle(bundle))
    with pytest.raises(AssertionError, match="imported"):
        verify_bundle(bundle, rerun=1)


def test_the_report_is_that_of_the_runs_in_the_bundle(runs: Path, tmp_path: Path) -> None:
    (runs / REPORT).write_text("from long ago")
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    write_bundle(runs, tmp_path / "new.zip", code())
    with zipfile.ZipFile(tmp_path / "new.zip") as found:
        page = found.read(REPORT).decode()
        assert f"runs/{REPORT}" not in found.namelist()
    assert "tails is larger" in page and "Built <time>for a bundle" in page and "from long ago" not in page
    assert before == {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}, "nothing was changed"


@pytest.mark.slow
def test_one_changed_byte_does_not_verify(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Bytes that mean nothing in a zip archive, dates and attributes, used to be changed without a trace."""
    content = bundle.read_bytes()
    directory = content.index(b"PK\x01\x02")
    end = len(content) - len("sha256 ") - 64 - 22
    positions = {
        *range(0, len(content), max(1, len(content) // 60)),
        *range(0, 30, 3),  # the first header
        *range(directory, directory + 46, 3),  # the first entry of the archive's directory
        *range(end, len(content), 5),  # the archive's end, and the seal
    }
    changed = tmp_path / "changed.zip"
    for position in positions:
        bit = 1 if position % 2 else 0x20  # the second turns a small letter into a capital
        changed.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        with pytest.raises(SystemExit) as ended:
            main(["verify", str(changed)])
        assert ended.value.code == 1, f"byte {position} of {len(content)}"
    for other in (content + b"\0", b"\0" + content, content[:-1], content[1:], content + content):
        changed.write_bytes(other)
        with pytest.raises(SystemExit) as ended:
            main(["verify", str(changed)])
        assert ended.value.code == 1
    capsys.readouterr()
    changed.write_bytes(content)
    assert all_hold(verify_bundle(changed))


def test_a_changed_bundle_names_the_file(bundle: Path, tmp_path: Path) -> None:
    content = bundle.read_bytes()
    with zipfile.ZipFile(bundle) as found:
        name = next(name for name in found.namelist() if name.endswith("summary.json"))
        position = found.getinfo(name).header_offset + 30 + len(name) + 20
    (tmp_path / "x.zip").write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    first, *_ = verify_bundle(tmp_path / "x.zip")
    assert not first.holds and first.detail.startswith("it was changed since it was written") and name in first.detail


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


def test_gigabytes_of_nothing_are_no_bundle_at_once(tmp_path: Path) -> None:
    """They used to be hashed before anybody asked whether they are an archive, which took half a minute."""
    with (tmp_path / "x.zip").open("wb") as file:
        file.truncate(60 * 2**30)
    started = time.monotonic()
    with pytest.raises(KymographError, match="not a bundle"):
        verify_bundle(tmp_path / "x.zip")
    assert time.monotonic() - started < 5


def refused(runs: Path, match: str) -> None:
    """Bundling must fail with a sentence, and leave nothing behind."""
    target = runs.parent / "out" / "x.zip"
    with pytest.raises(KymographError, match=match) as error:
        write_bundle(runs, target, code())
    assert "\n" not in str(error.value) and not [*target.parent.glob("*"), *target.parent.glob(".*")]


@pytest.mark.parametrize("what", ["a run", "a file", "a broken link"])
def test_a_link_is_refused_by_name(runs: Path, tmp_path: Path, what: str) -> None:
    """A linked run used to be left out without a word."""
    run = next(path for path in (runs / "tossing").iterdir() if path.is_dir())
    link = (
        run
        if what == "a run"
        else runs / "tossing" / "study.json"
        if what == "a file"
        else runs / "tossing" / "nothing"
    )
    if link.exists():
        link.rename(tmp_path / "aside")
    link.symlink_to(tmp_path / "aside")
    refused(runs, f"{link.name} is a link; replace it with its target")


def test_what_is_no_file_is_refused_by_name(runs: Path) -> None:
    os.mkfifo(runs / "pipe")
    refused(runs, "pipe is not a file; move it away")


@pytest.mark.parametrize("name", ["a\\b.txt", os.fsdecode(b"\xff.txt")])
def test_a_name_that_no_bundle_can_hold_is_refused(runs: Path, name: str) -> None:
    (runs / name).write_text("x")
    refused(runs, "is not a valid file name in a bundle")


def test_a_file_that_cannot_be_read_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: str | Path, *arguments: int, **options: int) -> int:
        if Path(path).name == "summary.json":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    refused(runs, r"cannot read .*summary\.json: Permission denied")


@pytest.mark.parametrize("change", ["longer", "shorter", "as long as before", "a new file", "gone"])
def test_what_changes_while_it_is_packed_is_named(runs: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (changed,) = (runs / "log").glob("*.jsonl")
    content = changed.read_bytes()
    report = bundling._report

    def meddle(*arguments: object) -> str:
        match change:
            case "longer":
                changed.write_bytes(content + b"\n")
            case "shorter":
                changed.write_bytes(content[:-1])
            case "as long as before":
                changed.write_bytes(content.replace(b"tails", b"heads"))
            case "a new file":
                (runs / "tossing" / "new.json").write_text("{}")
            case "gone":
                changed.unlink()
        return report(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bundling, "_report", meddle)
    refused(runs, "changed while|No such file")


def test_a_bundle_in_the_directory_of_its_runs_does_not_hold_itself(runs: Path) -> None:
    for _ in range(2):
        write_bundle(runs, runs / "x.zip", code())
        with zipfile.ZipFile(runs / "x.zip") as found:
            assert "runs/x.zip" not in found.namelist()
        assert all_hold(verify_bundle(runs / "x.zip"))


def test_a_place_that_cannot_be_written_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory.zip").mkdir()
    for name in ("file/x.zip", "directory.zip"):
        with pytest.raises(KymographError, match=r"cannot (create|write)"):
            write_bundle(runs, tmp_path / name, code())
    with pytest.raises(KymographError, match="there is no directory"):
        write_bundle(tmp_path / "absent", tmp_path / "x.zip")


@pytest.mark.slow
def test_a_large_file_is_read_in_pieces(runs: Path, tmp_path: Path) -> None:
    """A file used to be read whole, twice."""
    import tracemalloc

    (runs / "large.bin").write_bytes(os.urandom(2**16) * 2**9)  # 32 MB
    tracemalloc.start()
    write_bundle(runs, tmp_path / "x.zip", code())
    with unpacked(tmp_path / "x.zip") as found:
        assert not found.problems
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 * 2**20


def test_damage_is_pointed_out_while_packing(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """It used to be packed without a word, and whoever received the bundle was the first to know."""
    summary = next(runs.glob("tossing/*/summary.json"))
    summary.write_bytes(summary.read_bytes() + b" ")
    segment = next(runs.glob("log/*.jsonl"))
    segment.write_bytes(segment.read_bytes()[:-5])
    write_bundle(runs, tmp_path / "x.zip", code())
    notes = [line for line in capsys.readouterr().err.splitlines() if "will not verify" in line]
    assert any(summary.parent.name in note for note in notes) and any(
        "entries that the log does not have" in note for note in notes
    )
    assert not all_hold(verify_bundle(tmp_path / "x.zip"))


@pytest.mark.parametrize("name", ["status.json", "arrays.safetensors"])
def test_a_record_of_gigabytes_is_not_packed(runs: Path, tmp_path: Path, name: str) -> None:
    path = next(runs.glob(f"tossing/*/{name}"))
    with path.open("wb") as file:
        file.truncate(8 * 2**30)
    with pytest.raises(KymographError, match=rf"{name} is larger than any record that kymograph writes"):
        write_bundle(runs, tmp_path / "x.zip", code())
    assert not list(tmp_path.glob("*.zip"))


@pytest.mark.parametrize("name", ["figures", REPORT, "x.part", "log"])
def test_a_study_may_be_called_like_what_is_not_packed(tmp_path: Path, name: str) -> None:
    """Its runs were left out of the bundle without a word."""
    runs = tmp_path / "runs"
    with kymograph.record(name, arm="a", seed=1, out=runs) as run:
        run.log(loss=1.0)
    stored = sorted(path.relative_to(tmp_path).as_posix() for path in runs.rglob("*") if path.is_file())
    write_bundle(runs, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as found:
        assert sorted(one for one in found.namelist() if one.startswith("runs/")) == stored
    assert all_hold(verify_bundle(tmp_path / "x.zip"))


def test_what_is_derived_and_what_is_unfinished_is_still_left_out(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    kymograph.record("mine", arm="a", seed=1, out=runs).finish()
    for name in ("figures/x.png", "mine/b-s1-0.part/state.safetensors", ".hidden/x", "report.html"):
        (runs / name).parent.mkdir(parents=True, exist_ok=True)
        (runs / name).write_text("x")
    write_bundle(runs, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as found:
        assert {name.split("/")[1] for name in found.namelist() if name.startswith("runs/")} == {"mine", "log"}
        assert not any(".part" in name for name in found.namelist())


def test_a_manifest_of_millions_of_lists_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr(MANIFEST, b"[" + (b"[" * 38 + b"]" * 38 + b",") * 60_000 + b"0]")
    with pytest.raises(KymographError, match="not a bundle of runs"), unpacked(path):
        pass
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr(MANIFEST, b" " * (2**26 + 1))
    with pytest.raises(KymographError, match="is larger than any that kymograph writes"), unpacked(path):
        pass


def test_ten_thousand_runs_fit_and_what_could_not_be_read_again_is_not_packed(tmp_path: Path) -> None:
    run = "runs/" + "study" * 5 + "/" + "arm" * 8 + "-s00000-0123456789abcdef"
    files = ["arrays.safetensors", "summary.json", "config.json", "status.json", "network.safetensors", "notes.json"]
    bundling._check_number([f"{run}/{name}" for name in files] * 10_000, tmp_path)
    with pytest.raises(KymographError, match="more files than a bundle can hold"):
        bundling._check_number([f"{run}/{name}" for name in files] * 60_000, tmp_path)
