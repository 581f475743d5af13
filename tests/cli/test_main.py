from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kymograph._cli.arguments import option_words
from kymograph._cli.main import GROUPS, VERBS, usage
from kymograph._cli.verbs.maintenance import options_type
from tests.cli.command import call, write_coin

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
    assert lines == VERBS.names() and lines[:2] == ["new", "run"]


@pytest.mark.science
def test_the_usage_has_the_verbs_in_groups() -> None:
    groups: dict[str, list[str]] = {}
    for line in usage().splitlines()[4:]:
        if (heading := line.partition(":")[0]) in GROUPS:
            verbs = groups.setdefault(heading, [])
        elif line.startswith("  ") and line[2] != " ":
            verbs.append(line.split()[0])
    assert groups == {
        "experiment": ["new", "run", "watch", "show", "studies"],
        "judge": ["register", "judge", "power", "verify", "bundle", "abandon"],
        "look": ["figure", "report", "export"],
        "science": ["reproduce", "calibrate", "audit", "rules", "variance"],
        "maintenance": ["selftest", "fetch", "completion"],
    }
    assert all(part.properties["group"] in GROUPS for part in VERBS.parts().values()), "none is there by default"


@pytest.mark.science
def test_the_page_about_the_command_line_has_every_verb_with_its_directories() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text().replace(r"\|", "/")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    rows = rows[2 : next(index for index, row in enumerate(rows) if row[0] == "code")]
    group, listed = "", {}
    for first, words, runs, output in rows:
        if first.startswith("*"):
            group = first.strip("*")
        else:
            listed[first.strip("`")] = group, words.strip("`"), runs, output
    assert list(listed) == VERBS.names()
    for name, (group, words, runs, output) in listed.items():
        part, kind = VERBS.part(name), options_type(name)
        usage_words = str(part.properties.get("usage", name)).replace("|", "/").split()[1:]
        assert group == part.properties["group"] and words in " ".join(usage_words), name
        options = option_words(kind)
        assert ("--dir" in options) == runs.startswith("`--dir`"), name
        assert ("--output" in options) == bool(output), name
        defaults = {field.name: field.default for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        default = defaults.get("dir" if "--dir" in options else "directory")
        if isinstance(default, str):
            assert f"default `{default}`" in runs, name


@pytest.mark.parametrize(("old", "new"), [("list", "studies"), ("runs", "show")])
def test_a_verb_of_an_earlier_version_still_works_and_says_its_new_name(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = write_coin(tmp_path)
    assert call("run", str(path), "--seeds", "1", "--dir", str(tmp_path / "r"), "--engine", "serial", "--quiet") == 0
    words = {"list": [str(path)], "runs": ["--dir", str(tmp_path / "r")]}[old]
    capsys.readouterr()
    assert call(new, *words) == 0
    expected = capsys.readouterr()
    assert expected.err == "" and expected.out
    assert call(old, *words) == 0
    captured = capsys.readouterr()
    assert captured.out == expected.out and captured.err == f"note: `kymograph {old}` is now `kymograph {new}`\n"
    assert f"\n  {old} " not in usage()


@pytest.mark.science
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["studies"],
        ["studies", "depth"],
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
        (["studies"], ()),
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
    (information / "entry_points.txt").write_text("[kymograph.verbs]\nhello = hello_verb\n")
    shown = in_a_process("from kymograph._cli.main import main; main(['--help'])", tmp_path)
    _, _, science = shown.stdout.partition("\nscience: ")
    assert science.splitlines()[1].split() == ["hello", "NAME", "say", "hello"], "the group of installed packages"
    (tmp_path / "hello_verb.py").write_text(HELLO.replace('"order": 15', '"group": "look", "order": 1'))
    shown = in_a_process("from kymograph._cli.main import main; main(['--help'])", tmp_path)
    assert shown.stdout.partition("\nlook: ")[2].splitlines()[1].split()[0] == "hello", shown.stderr
    said = in_a_process("from kymograph._cli.main import main; main(['hello', 'Ada'])", tmp_path)
    assert said.stdout == "hello, Ada\n" and said.returncode == 7
    near = in_a_process("from kymograph._cli.main import main; main(['helo'])", tmp_path)
    assert near.returncode == 2 and near.stderr == "kymograph: there is no verb 'helo'; did you mean 'hello'?\n"


def test_a_verb_that_cannot_be_imported_stops_only_itself(tmp_path: Path) -> None:
    (tmp_path / "broken_verb.py").write_text("import absent_module\nPART = {'about': 'fails', 'order': 16}\n")
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text("[kymograph.verbs]\nbroken = broken_verb\n")
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
    (["export", "absent"], "kymograph: kymograph export needs --to {json,csv,"),
    (["export", "absent", "--to", "json"], "kymograph: kymograph export needs -o PATH (see `kymograph export --help`)"),
    (["register"], "kymograph: kymograph register needs CLAIMS (see `kymograph register --help`)"),
    (["new"], "kymograph new needs study and NAME (see"),
    (["report", "absent", "x.html"], "kymograph report cannot use the word 'x.html'; see `kymograph report --help`"),
    (["run", "depth", "mine"], "kymograph run depth cannot use the word 'mine'; did you mean `--dir mine`?"),
    (["run", "--dir", "mine", "depth"], "name the study before its options: kymograph run STUDY --dir ..."),
    (["variance", "--dir", "mine", "depth"], "name the study before its options: kymograph variance STUDY --dir ..."),
    (["run", "depth", "--dir"], "kymograph: --dir needs a value (see `kymograph run depth --help`)"),
    (["judge", "--dir"], "kymograph: --dir needs a value: the directory of runs"),
    (["--verison"], "there is no option '--verison'; did you mean '--version'?"),
    (["version"], "there is no verb 'version'; did you mean '--version'?"),
    (["show", "a/s1", "b/s1", "--dir", "absent"], "kymograph show takes one name"),
    (["register", "a.toml", "b.toml", "--dir", "absent"], "cannot use the word"),
    (["figure", "--style", "papr"], "paper"),
    (["figure", "--dir", "absent", "--where", "lr"], "--where takes FIELD=VALUE, not 'lr'"),
    (["calibrate", "absent", "--nulls", "freesh"], "did you mean 'fresh'"),
    (["calibrate", "absent", "--data", "digit"], "there is no data set 'digit'; did you mean 'digits'"),
    (["rules", "--model", "vitt"], "there is no model 'vitt'; did you mean 'vit'"),
    (["fetch", "cifar", "-o", "data"], "did you mean 'cifar10'"),
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
    (["figure", "--dir", "absent"], "no directory absent"),
    *(
        ([verb, *more], "there is no directory runs; make one with `kymograph run STUDY --dir runs`")
        for verb, *more in (
            ["judge"],
            ["report"],
            ["watch"],
            ["show"],
            ["figure"],
            ["export", "--to", "csv", "-o", "x"],
        )
    ),
    (["verify"], "there is no directory or bundle runs; name"),
    (["bundle", "-o", "x.zip"], "there is no directory runs"),
    (["abandon", "--reason", "dear"], "there is no directory runs"),
    (["figure", "--venue", "icml2042"], "did you mean 'icml2024'"),
    (["figure", "--style", "slides", "--venue", "icml2024"], "drop the venue or the style 'slides'"),
    (["studies", "dept"], "did you mean 'depth'"),
    (["run", ":x"], "there is no study"),
    (["run", ".:x"], "cannot load the study"),
    (["run", "clipping", "--device", "tpu", "--seeds", "1"], "no device 'tpu'"),
    (["run", "clipping", "--data", "learnable"], "data cannot be set: the arm 'extreme/no_clip' fixes it at"),
    (["judge", "absent", "--study", "absent.py"], "there is no file absent.py"),
    (["watch", "absent", "--study", "depth"], "there is no directory absent"),
    (["judge", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["show", "--dir", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["bundle", ".", "-o", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["figure", "x", "--dir", "a\0b"], "'a\\x00b' is not a valid file name"),
    (["run", "a\0b.py"], "'a\\x00b.py' is not a valid file name"),
    (["fetch", "cifar10", "-o", "a\0b"], "'a\\x00b' is not a valid directory name"),
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
    assert call() == 2 and call("--help") == 0 and call("-h") == 0 and call("help") == 0
    assert capsys.readouterr().out == usage() * 4
    assert call("judge", "--help") == 0
    expected = capsys.readouterr().out
    assert call("help", "judge") == 0 and capsys.readouterr().out == expected


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture) -> None:
    assert call("--version") == 0
    expected = f"kymograph {importlib.metadata.version('kymograph')}\n"
    assert capsys.readouterr().out == expected
    assert call("-V") == 0 and capsys.readouterr().out == expected


def test_ctrl_c_says_how_to_resume(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kymograph._cli.verbs.experiment.studies_verb", interrupted)
    assert call("studies") == 130
    assert capsys.readouterr().err == "kymograph: interrupted; run the same command again to resume\n"


@pytest.mark.parametrize("words", ["--help", "studies --help", "figure --list"])
def test_a_closed_pipe_ends_quietly(words: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m kymograph {words} | true"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1) and done.stderr == ""  # 0 if the pipe closed after everything was written


@pytest.mark.parametrize(("words", "most"), [(["--help"], 0.5), (["studies"], 0.5), (["figure", "--list"], 2.0)])
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

    listed = there("studies")
    assert listed.returncode == 0 and "depth" in listed.stdout, listed.stderr
    for words in (["show", "--dir", "absent"], ["run", "depth", "--dir", "runs"], ["run", "x:Y"]):
        done = there(*words)
        assert done.returncode == 1 and done.stderr.startswith("kymograph: "), done.stderr
        assert done.stderr.count("\n") == 1


def test_matplotlib_settings_in_the_current_directory_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe")
    code = "from kymograph._cli.main import main\ntry: main(['--version'])\nfinally: import matplotlib"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "") and found.stdout.startswith("kymograph ")


def test_a_file_in_the_place_of_something_else_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    write_coin(tmp_path, "coins.py")
    assert call("run", "coins") == 1
    assert capsys.readouterr().err == "kymograph: there is no study 'coins'; did you mean coins.py?\n"
    for words in (["judge", "coins.py"], ["report", "coins.py"], ["show", "--dir", "coins.py"], ["watch", "coins.py"]):
        assert call(*words) == 1
        assert capsys.readouterr().err == "kymograph: coins.py is a file; name a directory of runs\n"


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "40"}, {"FORCE_COLOR": "1"}], ids=str
)
def test_what_is_missing_is_named_whatever_the_terminal(environment: dict[str, str]) -> None:
    """Without a frame around it, the sentence used to begin with a rule of dashes."""
    command = [sys.executable, "-m", "kymograph", "bundle", "runs"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.stderr == "kymograph: kymograph bundle needs -o FILE (see `kymograph bundle --help`)\n"
