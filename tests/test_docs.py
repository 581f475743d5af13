"""What the README and the tutorial tell people to do, done."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kymograph.cli.main import main

ROOT = Path(__file__).parent.parent
QUICK = {
    "clipping": ["--n-samples", "60", "--epochs", "1", "--n-rare", "3", "--quiet", "--engine", "serial"],
    "calibration": ["--epochs", "1", "--width", "16", "--draws", "19", "--quiet", "--engine", "serial"],
    "snapshot": ["--epochs", "1", "--width", "16", "--quiet", "--engine", "serial"],
    "depth": ["--layers", "3", "--width", "8", "--steps", "6", "--quiet", "--engine", "serial"],
}


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def commands(path: Path) -> list[str]:
    lines = [line for block in blocks(path, "") for line in block.splitlines()]
    needs_more = ("my_study", "fetch", "--data-dir", "results/", "-ID", "--web", "--follow")  # what only the reader has
    return [line for line in lines if line.startswith("kymograph ") and not any(word in line for word in needs_more)]


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/howto.md"])
def test_every_command_shown_works(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = commands(ROOT / name)
    assert len(shown) >= 3
    if name == "docs/howto.md":  # its commands start from runs that are there
        main_ok("run", "depth", "--seeds", "42", *QUICK["depth"])
    for command in shown:
        words = shlex.split(command)[1:]
        if words[0] == "run":
            words += QUICK[words[1]]
        main_ok(*words)


def main_ok(*words: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 0, words


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/howto.md"])
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / name, "python")
    assert found
    for code in found:
        exec(compile(code, name, "exec"), {})


def test_the_benchs_table_in_the_readme_is_the_one_that_was_printed() -> None:
    table = (ROOT / "docs" / "bench.md").read_text().split("make bench`.\n\n")[1].strip()
    assert table in (ROOT / "README.md").read_text()


def test_links_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_verdicts_of_the_readme_are_those_of_the_page_that_the_demo_wrote() -> None:
    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in line.strip().strip("|").split(" | ")]

    shown = (ROOT / "README.md").read_text().split("<!-- verdicts -->\n")[1].split("<!-- /verdicts -->")[0]
    written = [line for line in (ROOT / "docs/verdicts.md").read_text().splitlines() if line.startswith("| ")][2:]
    expected = [[c[0], c[1], c[3], c[4], c[5], c[6]] for c in map(cells, written)]
    assert [cells(line) for line in shown.splitlines()[2:]] == expected
    assert len(expected) >= 14
