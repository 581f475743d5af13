"""Verbs that make runs and find them again: new, run, watch, show, studies."""

from __future__ import annotations

import importlib.util
import json
import keyword
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Annotated

from kymograph._cli.arguments import (
    EngineOptions,
    Formerly,
    conditions_from,
    given,
    grid_from,
    named_study,
    parse,
    parse_with_settings,
    positional,
    seeds_from,
    shown,
    with_engine_options,
)
from kymograph._cli.output import columns, fitting_output, note
from kymograph._errors import KymographError, UsageError
from kymograph._io.files import is_directory
from kymograph._io.writing import make_directory, write_atomically
from kymograph._studies.loading import STUDIES, list_studies, load_study, load_with_reference
from kymograph._studies.settings import setting_docs
from kymograph._wording import counted, folded, line_width

PARTS = {
    "new": {
        "attribute": "new_verb",
        "options": "NewOptions",
        "about": "write a user-defined study to start from, and its test",
        "usage": "new study NAME",
        "group": "experiment",
        "order": 110,
    },
    "run": {
        "attribute": "run_verb",
        "options": "RunOptions",
        "about": "run a study: arms x seeds; runs that are stored already are not computed again",
        "usage": "run STUDY",
        "group": "experiment",
        "order": 120,
        "debug": True,
        "settings": True,
    },
    "watch": {
        "attribute": "watch_verb",
        "options": "WatchOptions",
        "about": "follow a running sweep in the terminal, or in a browser with --web",
        "usage": "watch [DIR]",
        "group": "experiment",
        "order": 130,
    },
    "show": {
        "attribute": "show_verb",
        "options": "ShowOptions",
        "about": "stored runs by name: a table, one run in full, or the paths of those chosen",
        "usage": "show [NAME]",
        "group": "experiment",
        "order": 140,
    },
    "studies": {
        "attribute": "studies_verb",
        "options": "StudiesOptions",
        "about": "the studies; one with its arms and settings",
        "usage": "studies [STUDY]",
        "group": "experiment",
        "order": 150,
    },
}


TEMPLATES = Path(__file__).parent / "templates"
MOST_ARMS = 6
"""How many arms of a study the list of all studies shows."""


@dataclass(frozen=True)
class NewOptions:
    """Write a study to start from: NAME.py, which runs as it is, and test_NAME.py."""

    kind: Annotated[str, positional(), shown("study")]
    """What to write: a study."""
    name: Annotated[str, positional(), shown("NAME")]
    """Its name: letters, digits and underscores."""
    output: Annotated[str, shown("DIR", short="-o"), Formerly("--directory")] = "."
    """Directory for the two files."""


def new_verb(words: list[str]) -> int:
    """Writes the files and prints what to do with them."""
    if len(words) == 1 and words[0] != "study" and not words[0].startswith("-"):
        raise UsageError(f"kymograph new writes a study; did you mean `kymograph new study {words[0]}`?")
    options = parse(NewOptions, words, "kymograph new")
    if options.kind != "study":
        raise UsageError(f"kymograph new writes a study, not {options.kind!r}: kymograph new study NAME")
    study, test = (shlex.quote(str(path)) for path in write_study(options.name, options.output))
    print(f"wrote {study} and {test}; next:")
    print(f"  kymograph run {study} --n-seeds 10")
    print(f"  kymograph judge runs --study {_title(options.name)}")
    print("  kymograph report runs -o report.html")
    print(f"  python -m pytest {test}   # pip install pytest, if it is missing")
    return 0


def write_study(name: str, directory: str | Path = ".") -> tuple[Path, Path]:
    """Writes ``NAME.py``, a study that compares two arms on generated data, and ``test_NAME.py``; returns their paths.

    Existing files are not overwritten; a call that was interrupted between the two files can be repeated.
    """
    _check_name(name)
    study, test = Path(directory) / f"{name}.py", Path(directory) / f"test_{name}.py"
    words = {"module": name, "function": f"{_title(name)}_study"}
    contents = {
        path: Template((TEMPLATES / template).read_text()).substitute(words).encode()
        for path, template in ((study, "study.py.txt"), (test, "test_study.py.txt"))
    }
    for path, content in contents.items():
        ours = path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
        if path.exists() and (test.exists() or not ours):
            raise KymographError(f"{path} exists, and is not overwritten; choose another name")
    if not study.exists() and _hides_a_module(name):
        raise UsageError(f"{name}.py would hide the Python module {name}; choose another name")
    make_directory(Path(directory))
    for path, content in contents.items():
        write_atomically(path, content)
    return study, test


def _title(name: str) -> str:
    """Returns the name of the study in a file called ``name``."""
    return name.removesuffix("_study") or name


def _check_name(name: str) -> None:
    """Raises unless the name is valid for a Python module and not taken by a study."""
    plain = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name).strip("_").lower()
    if not _is_module_name(name):
        hint = f"; try {plain}" if _is_module_name(plain) else ""
        raise UsageError(f"{name!r} cannot be the name of a Python file: use letters, digits and underscores{hint}")
    if name.removesuffix("_study") in STUDIES.names():
        raise UsageError(f"there is already a study called {name.removesuffix('_study')}; choose another name")


def _is_module_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


def _hides_a_module(name: str) -> bool:
    try:
        return name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class RunOptions:
    """What to run and where; the study's own settings follow."""

    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the fixed list")] = ()
    """Explicit seeds, e.g. --seeds 42 123 456."""
    n_seeds: Annotated[int | None, shown("N", default="10 if no seeds are given")] = None
    """The first N of the fixed list of seeds, which starts 42, 123, 456."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="the study's default arms")] = ()
    """Arms by name or pattern, e.g. 'extreme/*'."""
    dir: Annotated[str, shown("DIR"), Formerly("--out")] = "runs"
    """Directory of the runs."""
    grid: Annotated[tuple[str, ...], shown("FIELD=VALUE,... ...", default="none")] = ()
    """Settings to vary, e.g. --grid lr=0.1,0.03: every arm and every claim at every point, in one family."""
    config: Annotated[str | None, shown("FILE", default="none")] = None
    """TOML file of settings, optionally with arms, seeds or n_seeds, and a table [grid]; options take precedence."""
    quiet: bool = False
    """Show no progress."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def run_verb(words: list[str]) -> int:
    """Runs a study; returns 0 only if every run finished."""
    if not words or words[0] in ("-h", "--help"):
        with fitting_output():
            print("usage: kymograph run STUDY [options]\n")
            names = ", ".join(STUDIES.names())
            print(f"studies: {names}; or a user-defined one as module:Name, file.py or file.py:Name\n")
            print("`kymograph run STUDY --help` lists the options and every setting of the study.")
        return 0 if words else 2
    if words[0].startswith("-"):
        raise UsageError(f"name the study before its options: kymograph run STUDY {words[0]} ...")
    loaded = load_with_reference(words[0])
    study = loaded.study
    kind = with_engine_options(RunOptions, words[1:])
    options, fields = parse_with_settings(kind, study.config_type, words[1:], f"kymograph run {words[0]}")
    if "seeds" in given(RunOptions, words[1:]) and not options.seeds:
        raise UsageError("--seeds needs at least one seed, e.g. --seeds 42")
    from kymograph._experiments.result_text import failure_text, headline_table, tuning_lines
    from kymograph._experiments.running import SweepRequest, read_settings, run_sweep

    seeds = tuple(seeds_from(options.seeds)) if options.seeds else None
    request = SweepRequest(fields, grid_from(options.grid), seeds, options.n_seeds, options.arms)
    if options.config is not None:
        request = request.over(read_settings(options.config, study))
    compute = options.compute.compute_options(options.dir, options, options.quiet)
    done = run_sweep(loaded, request.chosen_seeds, compute, arms=request.arms, fields=request.fields, grid=request.grid)
    if done.tuning is not None:
        for line in tuning_lines(done.tuning):
            print(line)
        if done.tuning.submitted:
            print(f"{study.name}: run the command again when the tuning runs have ended")
            return 0
    failed = len(done.failures)
    computed = done.computed - failed
    queued = f", {done.submitted} in the queue" if done.submitted else ""
    ended = f"{counted(computed, 'run')} computed, {done.found} found, {failed} failed{queued}"
    print(f"{study.name}: {ended}; in {options.dir}")
    if done.store.finished.runs and not options.quiet:
        print(headline_table(study, done.store.finished))
    if failed:
        print(failure_text(done.failures, done.store, options.dir, options.compute.debug), file=sys.stderr)
    return 1 if failed or (done.tuning is not None and done.tuning.without_value) else 0


@dataclass(frozen=True)
class WatchOptions:
    """Follow a running sweep: what is done, failed, running and still to come, and its numbers so far."""

    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only this study, by name, module:Name or file.py."""
    once: bool = False
    """Print the current state and exit."""
    follow: bool = False
    """Keep watching after all planned runs have ended, for a sweep that is still to start."""
    web: bool = False
    """Serve a page to the browsers of this machine instead, until Ctrl-C."""
    port: Annotated[int, shown("PORT")] = 8765
    """Port of the page; 0 chooses a free one."""


def watch_verb(words: list[str]) -> int:
    """Shows a running sweep until it ends, or until Ctrl-C."""
    options = parse(WatchOptions, words, "kymograph watch")
    directory, study = options.directory, named_study(options.study).name
    if study is not None:
        from kymograph._runs.spec import slug

        directory = str(Path(directory) / slug(study))
        if Path(options.directory).is_dir() and not Path(directory).is_dir():
            raise KymographError(f"{options.directory} has no runs of {study!r}")
    if options.web:
        from kymograph._pictures.live.web import serve

        return serve(directory, options.port)
    from kymograph._pictures.live.terminal import watch

    return watch(directory, options.once, options.follow)


@dataclass(frozen=True)
class ShowOptions:
    """Show stored runs by name; torch is not needed."""

    name: Annotated[tuple[str, ...], positional(), shown("[NAME]", default="all runs, as a table")] = ()
    """Show one run in full: ARM/sSEED as the table has it, e.g. residual/s42 or residual/s42,lr=0.03; STUDY/ARM/sSEED;
    an id. A pattern such as 'residual/*' chooses several."""
    dir: Annotated[str | None, shown("DIR", default="runs")] = None
    """Directory of the runs."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study."""
    arm: Annotated[tuple[str, ...], shown("ARM ...", default="all", short="--arms")] = ()
    """Only these arms, by name or pattern."""
    seed: Annotated[tuple[str, ...], shown("SEED ...", default="all", short="--seeds")] = ()
    """Only these seeds."""
    status: Annotated[tuple[str, ...], shown("STATUS ...", default="all")] = ()
    """Only runs that are finished, diverged, failed, missing (planned or being computed), superseded, abandoned or
    damaged."""
    where: Annotated[tuple[str, ...], shown("CONDITION ...", default="all")] = ()
    """Only runs that meet these conditions on settings, summary numbers and last values of series: lr=0.1,
    'accuracy>=0.9', 'loss<0.5', with = != < <= > >=."""
    sort: Annotated[str | None, shown("NAME", default="study, arm and seed")] = None
    """Sort by this: arm, seed, status, seconds, written (when it was stored), a setting, a summary number, or the last
    value of a series. Runs without it come last."""
    descending: bool = False
    """The largest or latest first; for --sort."""
    json: bool = False
    """Print JSON: a list of runs, or with NAME one run in full."""
    path: bool = False
    """Print the runs' directories, one per line."""


def show_verb(words: list[str]) -> int:
    """Prints the runs asked for."""
    options = parse(ShowOptions, words, "kymograph show")
    name, root = _name_and_directory(options)
    from kymograph._runs.conditions import select_runs
    from kymograph._runs.directory import Directory
    from kymograph._runs.listing import choose_runs, match, named_runs, run_details, run_table, run_text

    conditions, seeds = conditions_from(options.where), seeds_from(options.seed)
    if options.descending and options.sort is None:
        raise UsageError("--descending needs --sort NAME: by what are the runs sorted?")
    if options.json and options.path:
        raise KymographError("--json and --path print different things; choose one")
    directory = Directory(root).checked(series=False)
    for reason in directory.unreadable:
        print(f"left out: {reason}", file=sys.stderr)
    every = named_runs(directory)
    if not every:
        raise KymographError(f"{root} contains no runs; make some with `kymograph run STUDY --dir {root}`")
    among = choose_runs(match(every, name) if name else every, study=options.study, arms=options.arm)
    chosen = choose_runs(among, seeds=seeds, statuses=options.status)
    selection = select_runs(chosen, conditions, options.sort, options.descending, among)
    for reason in selection.unread:
        print(f"left out: {reason}", file=sys.stderr)
    runs = selection.runs
    if not runs:
        note(f"none of {counted(len(every), 'run')} in {root} is {_asked_for(options)}")
    in_full = bool(name) and len(runs) == 1
    if options.json:
        described = (
            run_details(runs[0], whole=True) if in_full else [run_details(run, last=selection.last) for run in runs]
        )
        print(json.dumps(described, indent=1, ensure_ascii=False))
    elif options.path:
        for run in runs:
            if run.directory is not None:
                print(run.directory)
    elif runs:
        print(run_text(runs[0]) if in_full else run_table(runs, directory.declarations, asked=selection.columns))
    return 0


def _asked_for(options: ShowOptions) -> str:
    """Returns in words which runs the options ask for."""
    words = [f"of {options.study}"] if options.study else []
    words += [f"of the arm {' or '.join(options.arm)}"] if options.arm else []
    words += [f"at seed {' or '.join(options.seed)}"] if options.seed else []
    words += [f"{' or '.join(options.status)}"] if options.status else []
    words += [f"such that {' and '.join(options.where)}"] if options.where else []
    return ", ".join(words)


def _name_and_directory(options: ShowOptions) -> tuple[str, str]:
    """Returns the name of the runs to show, empty for all, and their directory.

    In earlier versions the directory came first, as in ``runs DIR [NAME]``. That is still understood: of two words the
    first is a directory, and so is one that exists.
    """
    names, directory = options.name, options.dir
    if directory is None and names and (len(names) == 2 or is_directory(names[0])):
        note("the directory of runs is given as --dir DIR now: `kymograph show [NAME] --dir DIR`")
        directory, names = names[0], names[1:]
    if len(names) > 1:
        raise UsageError("kymograph show takes one name; several runs have a pattern, e.g. 'residual/*'")
    return "".join(names), "runs" if directory is None else directory


@dataclass(frozen=True)
class StudiesOptions:
    """List the studies with their questions and arms."""

    study: Annotated[
        str, positional(), shown("[STUDY]", default="every registered study, with its first default arms")
    ] = ""
    """Show every arm and setting of this study: a built-in one, or a user-defined one (module:Name, file.py:Name)."""


def studies_verb(words: list[str]) -> int:
    """Prints every study with its first default arms, or one study with all of its arms and settings."""
    reference = parse(StudiesOptions, words, "kymograph studies").study if words else ""
    for study in [load_study(reference)] if reference else list_studies():
        arms = study.arms()
        listed = arms if reference else [arm for arm in arms if arm.default][:MOST_ARMS]
        print(folded(f"{study.name}: {study.question}" if study.question else study.name, line_width(), further="  "))
        if listed:
            print(columns([(f"{'*' if arm.default else ' '} {arm.name}", arm.about) for arm in listed], line_width()))
        if reference:
            others = any(not arm.default for arm in arms)
            print(f"  * runs by default{'; run the others by name: `--arms NAME ...`' if others else ''}")
            _print_settings(study.config_type)
        else:
            more = len(arms) - len(listed)
            print(f"    and {more} more: `kymograph studies {study.name}`\n" if more else "")
    return 0


def _print_settings(config_type: type) -> None:
    """Prints the settings as options of `kymograph run`, with their defaults."""

    def typed(default: object) -> str:
        if isinstance(default, bool):
            return "yes" if default else "no"
        if isinstance(default, (tuple, list)):
            return " ".join(map(str, default)) or "none"
        return "none" if default in (None, "") else str(default)

    rows = [
        (f"--{setting.name.replace('_', '-')} {typed(setting.default)}", setting.about)
        for setting in setting_docs(config_type)
    ]
    if rows:
        print("\nSettings and their defaults:")
        print(columns(rows, line_width()))
