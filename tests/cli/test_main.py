from __future__ import annotations

import importlib.metadata
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kymograph._cli.main import VERBS, usage
from tests.cli.command import call

HELLO = '''"""Says hello."""

from dataclasses import dataclass
from typing import Annotated

from kymograph._cli.arguments import parse, positional, shown

PART = {"about": "say hello", "usage": "hello NAME", "order": 15}


@dataclass(frozen=True)
class Options:
    """Says hello."""

    name: Annotated[str, positional(), shown("NAME")]
    """Whom to greet."""


def main(words: list[str]) -> int:
    """Greets."""
    print(f"hello, {parse(Options, words, 'kymograph hello').name}")
    return 7
'''


def in_a_process(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    search = [*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search)}
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment)


def test_every_verb_is_declared_and_loads() -> None:
    for name, part in VERBS.parts().items():
        assert part.about and part.about[0].islower() and not part.about.endswith("."), name
        assert str(part.properties.get("usage", name)).split()[0] == name
        assert callable(VERBS.load(name))


def test_the_usage_has_a_line_for_every_verb_in_declared_order() -> None:
    lines = [line.split()[0] for line in usage().splitlines() if line.startswith("  ") and line[2] != " "]
    assert lines == VERBS.names() and lines[:2] == ["list", "run"]


@pytest.mark.science
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["list"],
        ["list", "depth"],
        ["figure", "--list"],
        ["run", "depth", "--help"],
        ["variance", "depth", "--help"],
        *([verb, "--help"] for verb in VERBS.names()),
    ],
    ids=" ".join,
)
def test_help_and_lists_fit_eighty_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--help"], ()),
        (["list"], ()),
        (["figure", "--list"], ("matplotlib",)),  # a study's figures are functions of its own modules, which draw
    ],
)
def test_what_answers_at_once_imports_neither_torch_nor_tyro_nor_matplotlib(
    words: list[str], needed: tuple[str, ...]
) -> None:
    code = f"""
import sys
from kymograph._cli.main import main
try:
    main({words!r})
except SystemExit as exit_:
    assert not exit_.code, exit_.code
slow = {{"torch", "tyro", "matplotlib", "scipy", "sklearn", "rich"}} & set(sys.modules) - set({needed!r})
sys.exit(", ".join(sorted(slow)) or 0)
"""
    done = in_a_process(code)
    assert done.returncode == 0, done.stderr


def test_the_usage_imports_no_verb() -> None:
    code = "import sys; from kymograph._cli.main import usage; usage()\n"
    code += "sys.exit(', '.join(name for name in sys.modules if name.startswith('kymograph._cli.verbs.')) or 0)"
    assert in_a_process(code).returncode == 0


def test_no_verb_imports_torch_or_tyro_before_it_knows_its_options() -> None:
    code = "import sys; from kymograph._cli.main import VERBS; [VERBS.load(name) for name in VERBS.names()]\n"
    code += "sys.exit(', '.join({'torch', 'tyro'} & set(sys.modules)) or 0)"
    done = in_a_process(code)
    assert done.returncode == 0, done.stderr


def test_a_verb_in_a_users_package_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "greetings").mkdir()
    (tmp_path / "greetings" / "__init__.py").write_text("raise ImportError('the package itself is never needed')\n")
    (tmp_path / "hello_verb.py").write_text(HELLO)
    information = tmp_path / "greetings-1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("[kymograph.cli.verbs]\nhello = hello_verb\n")
    shown = in_a_process("from kymograph._cli.main import main; main(['--help'])", tmp_path)
    lines = [line.split() for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines[:3]] == ["list", "hello", "run"], shown.stderr
    assert lines[1] == ["hello", "NAME", "say", "hello"]
    said = in_a_process("from kymograph._cli.main import main; main(['hello', 'Ada'])", tmp_path)
    assert said.stdout == "hello, Ada\n" and said.returncode == 7
    near = in_a_process("from kymograph._cli.main import main; main(['helo'])", tmp_path)
    assert near.returncode == 2 and near.stderr == "kymograph: there is no verb 'helo'; did you mean 'hello'?\n"


def test_a_verb_that_cannot_be_imported_stops_only_itself(tmp_path: Path) -> None:
    (tmp_path / "broken_verb.py").write_text("import absent_module\nPART = {'about': 'fails', 'order': 16}\n")
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("[kymograph.cli.verbs]\nbroken = broken_verb\n")
    assert "  broken " in in_a_process("from kymograph._cli.main import main; main(['--help'])", tmp_path).stdout
    done = in_a_process("from kymograph._cli.main import main; main(['broken'])", tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "absent_module" in done.stderr


MISUNDERSTOOD = [
    (["bench"], "there is no verb 'bench'; `make bench`"),
    (["rum"], "did you mean 'run'"),
    (["run", "clipping", "--seeds", "forty"], "a seed must be a whole number, not 'forty'"),
    (["run", "clipping", "--seeds", "-1"], "whole number"),
    (["run", "clipping", "--epochs", "many"], "--epochs"),
    (["run", "clipping", "--epoch", "3"], "did you mean '--epochs'"),
    (["run", "depth", "--task", "identty"], "identity"),
    (["run", "clipping", "--engine", "threads"], "serial"),
    (["run", "clipping", "--engine", "serail"], "there is no engine 'serail'; did you mean 'serial'"),
    (["export", "absent", "--to", "jsn", "--output", "x.json"], "did you mean 'json'"),
    (["export", "absent", "--to", "json"], "--output"),
    (["figure", "--style", "papr"], "paper"),
    (["figure", "--from", "absent", "--where", "lr"], "--where takes FIELD=VALUE, not 'lr'"),
    (["calibrate", "absent", "--nulls", "freesh"], "did you mean 'fresh'"),
    (["calibrate", "absent", "--data", "digit"], "there is no data set 'digit'; did you mean 'digits'"),
    (["rules", "--model", "vitt"], "there is no model 'vitt'; did you mean 'vit'"),
    (["fetch", "cifar", "data"], "did you mean 'cifar10'"),
    (["run", "clipping", "--epochs", "-3"], "epochs must be at least 1, not -3"),
    (["run", "clipping", "--arms", "extreme/clipp"], "did you mean 'extreme/clip'"),
    (["run", "clipping", "--n-seeds", "0"], "at least 1"),
    (["run", "clipping", "--seeds"], "at least one seed"),
    (["calibrate", "absent", "--draws", "3"], "draws must be at least 19, not 3"),
    (["audit", "absent", "--images", "1"], "images must be at least 2, not 1"),
    (["selftest", "--worlds", "5"], "worlds must be at least 100, not 5"),
]
"""No such verb, option or value."""
REFUSED = [
    (["run", "cliping"], "did you mean 'clipping'"),
    (["run", "nowhere.module:Study"], "cannot load the study"),
    (["run", "absent.py"], "there is no file absent.py"),
    (["export", "absent", "--to", "json", "--output", "x.json"], "no directory absent"),
    (["figure", "--from", "absent"], "no directory absent"),
    (["figure", "--venue", "icml2042"], "did you mean 'icml2024'"),
    (["figure", "--style", "slides", "--venue", "icml2024"], "drop the venue or the style 'slides'"),
    (["list", "dept"], "did you mean 'depth'"),
    (["run", ":x"], "there is no study"),
    (["run", ".:x"], "cannot load the study"),
    (["run", "clipping", "--device", "tpu", "--seeds", "1"], "no device 'tpu'"),
    (["run", "clipping", "--data", "learnable"], "data cannot be set: the arm 'extreme/no_clip' fixes it at"),
    (["judge", "absent", "--study", "absent.py"], "there is no file absent.py"),
    (["watch", "absent", "--study", "depth"], "there is no directory absent"),
    (["judge", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["runs", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["bundle", ".", "-o", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["figure", "x", "--from", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["run", "a\0b.py"], "'a\\x00b.py' is not a valid file name"),
    (["fetch", "cifar10", "a\0b"], "'a\\x00b' is not a valid directory name"),
]


@pytest.mark.science
@pytest.mark.parametrize(("words", "message"), [*MISUNDERSTOOD, *REFUSED])
def test_a_mistake_gets_one_sentence_and_changes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*words) == (2 if (words, message) in MISUNDERSTOOD else 1)
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.err.startswith("kymograph: ")
    assert captured.out == "" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", VERBS.names())
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture) -> None:
    assert call(name, "--help") == 0
    assert len(capsys.readouterr().out) > 80


def test_no_words_are_a_mistake_and_help_is_not(capsys: pytest.CaptureFixture) -> None:
    assert call() == 2 and call("--help") == 0 and call("-h") == 0
    assert capsys.readouterr().out == usage() * 3


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"kymograph {importlib.metadata.version('kymograph')}\n"


def test_ctrl_c_says_how_to_resume(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kymograph._cli.verbs.experiment.list_verb", interrupted)
    assert call("list") == 130
    assert capsys.readouterr().err == "kymograph: interrupted; run the same command again to resume\n"


@pytest.mark.parametrize("words", ["--help", "list --help", "figure --list"])
def test_a_closed_pipe_ends_quietly(words: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m kymograph {words} | true"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1) and done.stderr == ""  # 0 if the pipe closed after everything was written


@pytest.mark.parametrize(("words", "most"), [(["--help"], 0.5), (["list"], 0.5), (["figure", "--list"], 2.0)])
def test_help_and_list_answer_at_once(words: list[str], most: float) -> None:
    def fastest(command: list[str]) -> float:
        """Returns the least processor time of five tries: wall time depends on what else the machine is doing."""
        times = []
        for _ in range(5):
            began = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
        return min(times)

    bare = fastest([sys.executable, "-c", "pass"])
    # torch alone takes more than a second, matplotlib, which lists of figures may load, about half of one.
    assert fastest([sys.executable, "-m", "kymograph", *words]) - bare < most


def test_a_deleted_current_directory_is_no_traceback(tmp_path: Path) -> None:
    """Somebody else may delete it, or a script that cleans up."""
    code = "import os, sys; os.mkdir('d'); os.chdir('d'); os.rmdir('../d'); os.execv(sys.executable, sys.argv[1:])"
    source = str(Path(__file__).parents[2] / "src")

    def there(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, sys.executable, "-m", "kymograph", *words]
        environment = {**os.environ, "PYTHONPATH": source}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    listed = there("list")
    assert listed.returncode == 0 and "depth" in listed.stdout, listed.stderr
    for words in (["runs", "absent"], ["run", "depth", "--out", "runs"], ["run", "x:Y"]):
        done = there(*words)
        assert done.returncode == 1 and done.stderr.startswith("kymograph: "), done.stderr
        assert done.stderr.count("\n") == 1


def test_matplotlib_settings_in_the_current_directory_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe")
    code = "from kymograph._cli.main import main\ntry: main(['--version'])\nfinally: import matplotlib"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "") and found.stdout.startswith("kymograph ")
