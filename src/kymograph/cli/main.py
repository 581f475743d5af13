"""The command line: verbs only, with heavy imports inside each verb."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean

USAGE = """usage: kymograph VERB ...

A laboratory for the dynamics of neural-network training.

  list                 the studies and their arms
  run STUDY            run a study: arms x seeds, what is stored already is not computed again
  reproduce            run every study, judge every claim, draw the figures, write the report
  watch DIR            follow a running sweep in the terminal, or in a browser with --web
  calibrate CHECKPOINT a trained network's credit cosines against their nulls
  audit NETWORK        scale, reference and depth of a trained network: PASS or FAIL, with the numbers
  judge DIR            verdicts on the registered claims, over seeds; --claims FILE for your own
  register DIR FILE    register claims of your own with a directory before its runs exist
  rules                what every part of a network learns from under each rule, proved beside autograd
  selftest             how often the judge supports what is not there, and finds what is
  figure [NAME ...]    draw figures from stored runs, as PNG, PDF, SVG and CSV
  report DIR           stored runs and their verdicts as one self-contained HTML page
  export DIR           stored runs as JSON, CSV or Parquet, for TensorBoard or MLflow, or in the scripts' own layout
  fetch cifar10 DIR    download CIFAR-10 and check it; nothing else is ever downloaded
  bench                time this package beside the scripts' way of working

kymograph VERB --help tells the options of a verb. --debug shows the traceback of an error.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb; exits with 0 only if everything asked for was done."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        sys.exit(0 if words else 2)
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"kymograph {version('kymograph')}")
        return
    try:
        verb = VERBS.get(words[0])
        if verb is None:
            raise KymographError(f"there is no verb {words[0]!r}{did_you_mean(words[0], VERBS)}")
        sys.exit(verb(words[1:]))
    except KymographError as error:
        if debug:
            raise
        print(f"kymograph: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("kymograph: interrupted; run the same command again to go on where it stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # e.g. `kymograph list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def list_(words: list[str]) -> int:
    """Prints the studies."""
    from kymograph.studies.base import list_studies, load_study

    chosen = _parse("ListOptions", words, "kymograph list").study if words else ""
    for study in [load_study(chosen)] if chosen else list_studies():
        arms = study.arms()
        print(f"{study.name}: {study.question}")
        shown = arms if chosen else [arm for arm in arms if arm.default]
        width = max(len(arm.name) for arm in shown)
        for arm in shown:
            mark = "*" if arm.default else " "
            print(f"  {mark} {arm.name:<{width}}  {arm.about}")
        if chosen:
            print("  * runs by default; the others by name: `--arms NAME ...`")
        else:
            print(f"    and {len(arms) - len(shown)} more: `kymograph list {study.name}`\n")
    return 0


def run(words: list[str]) -> int:
    """Runs a study."""
    from kymograph.studies.base import BUILT_IN, load_study

    if not words or words[0] in ("-h", "--help"):
        print(f"usage: kymograph run STUDY [options]\n\nstudies: {', '.join(BUILT_IN)}, or your own as module:name\n")
        print("`kymograph run STUDY --help` tells the options and every setting of the study.")
        return 0 if words else 2
    if ":" in words[0]:
        sys.path.append(os.getcwd())  # a user's own study is looked for here, after everything that is installed
    study = load_study(words[0])
    from kymograph.cli.arguments import given, parse_with_settings
    from kymograph.cli.options import RunOptions
    from kymograph.lab.headlines import headline_table
    from kymograph.lab.judge import planning_note
    from kymograph.lab.run import choose_seeds, sweep
    from kymograph.lab.select import whole_numbers

    options, fields = parse_with_settings(RunOptions, study.config_type, words[1:], f"kymograph run {words[0]}")
    if "seeds" in given(RunOptions, words[1:]) and not options.seeds:
        raise KymographError("--seeds needs at least one seed, e.g. --seeds 42")
    if options.data_dir is not None:
        os.environ["KYMOGRAPH_DATA"] = options.data_dir  # for this process and its workers; never stored with a run
    done = sweep(
        study,
        words[0],
        choose_seeds(whole_numbers(options.seeds) if options.seeds else None, options.n_seeds),
        arms=options.arms or None,
        out=options.out,
        engine=options.engine,
        workers=options.workers,
        device=options.device,
        quiet=options.quiet,
        fields=fields,
    )
    failed = len(done.failures)
    note = planning_note(study, done.store.arms, len(done.store.seeds))
    if note and not options.quiet:
        print(f"note: {note}", file=sys.stderr)
    computed = done.computed - failed
    runs = "run" if computed == 1 else "runs"
    print(f"{study.name}: {computed} {runs} computed, {done.found} found, {failed} failed; in {options.out}")
    if done.store.finished.runs and not options.quiet:
        print(headline_table(study, done.store.finished))
    names = {run.id: f"{run.arm}, seed {run.seed}" for run in done.store.failed}
    for failure in done.failures[:5]:
        print(f"  failed: {names.get(failure.run, failure.run)}: {failure.reason}", file=sys.stderr)
    return 1 if failed else 0


def export(words: list[str]) -> int:
    """Writes stored runs for other programs."""
    options = _parse("ExportOptions", words, "kymograph export")
    from kymograph.lab.select import select

    store = select(options.directory, options.select)
    if options.to == "script":
        from kymograph.runs.formats.script import export_script
        from kymograph.studies.base import load_study

        if len(store.studies) > 1:
            raise KymographError(f"the script's file holds one study; choose it with --study {store.studies[0]}")
        path = export_script(store, options.output, options.seed, load_study(store.studies[0]).to_script)
    else:
        from kymograph.runs.formats.export import export as write

        path = write(store, options.to, options.output)
    print(path)
    return 0


def figure(words: list[str]) -> int:
    """Draws figures."""
    options = None if words == ["--list"] else _parse("FigureOptions", words, "kymograph figure")
    if options is None or options.list:  # the bare list answers at once: tyro is not loaded for it
        from kymograph.lab.figures import list_figures

        for study, name, about in list_figures():
            print(f"{study:<12} {name:<28} {about}")
        return 0

    from kymograph.cli.options import SelectOptions
    from kymograph.figures.looks import choose_look
    from kymograph.figures.save import save_figure
    from kymograph.lab.figures import figure as draw_figure
    from kymograph.lab.figures import figure_from_logs, figure_names, file_name
    from kymograph.lab.select import select
    from kymograph.runs.record import STATUS

    choose_look(options.style, options.venue)  # a mistake in the look is told before anything is read
    look = {"style": options.style, "venue": options.venue}
    places = [Path(place) for place in options.from_]
    is_store = len(places) == 1 and places[0].is_dir() and any(places[0].rglob(STATUS))
    if is_store or not options.names or not all(place.exists() for place in places):
        if len(places) > 1:
            missing = [place for place in places if not place.exists()]
            raise KymographError(
                f"there is no log {missing[0]}" if missing else "name the figure to draw from these logs"
            )
        store = select(options.from_[0], options.select)
        figures = {name: draw_figure(name, store, **look) for name in options.names}
        for name in [] if options.names else figure_names(store):
            try:
                figures[name] = draw_figure(name, store, **look)
            except KymographError as error:
                print(f"{name} was not drawn: {error}", file=sys.stderr)
        default = places[0] / "figures"
    else:
        if options.select != SelectOptions():
            raise KymographError("logs are drawn as they are: --study, --arms and --where choose among stored runs")
        figures = {name: figure_from_logs(name, options.from_, **look) for name in options.names}
        default = Path()
    for name, drawn in figures.items():
        for path in save_figure(drawn, Path(options.out) if options.out else default, file_name(name)):
            print(path)
    return 0


def report(words: list[str]) -> int:
    """Writes the report."""
    import datetime

    options = _parse("ReportOptions", words, "kymograph report")
    from kymograph.lab.judge import judge as judged
    from kymograph.lab.judge import whole_runs
    from kymograph.report.page import write_page

    store, damaged = whole_runs(Path(options.directory))
    for reason in damaged:
        print(f"left out: {reason}", file=sys.stderr)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    print(write_page(store, judged(options.directory), Path(options.output), title=options.title, now=now))
    return 0


def watch(words: list[str]) -> int:
    """Shows a running sweep."""
    options = _parse("WatchOptions", words, "kymograph watch")
    if options.web:
        from kymograph.live.web import serve

        return serve(options.directory, options.port)
    from kymograph.live.terminal import watch as show

    return show(options.directory, options.once, options.follow)


def calibrate(words: list[str]) -> int:
    """Sets a trained network's credit against its nulls."""
    options = _parse("CalibrateOptions", words, "kymograph calibrate")
    if options.data_dir is not None:
        os.environ["KYMOGRAPH_DATA"] = options.data_dir
    for name, value, least in (("draws", options.draws, 19), ("images", options.images, 2)):
        if value < least:
            raise KymographError(f"{name} must be at least {least}, not {value}")
    from kymograph.lab.calibrate import calibrate_checkpoint

    nulls = tuple(dict.fromkeys(("fresh", *options.nulls)))
    for line in calibrate_checkpoint(
        options.checkpoint, options.data, options.images, options.draws, nulls, options.seed, Path(options.out)
    ):
        print(line)
    return 0


def judge(words: list[str]) -> int:
    """Judges the claims about stored runs."""
    options = _parse("JudgeOptions", words, "kymograph judge")
    from kymograph.lab.judge import judge as judged
    from kymograph.lab.judge import judge_csv
    from kymograph.lab.select import settings
    from kymograph.report.verdicts import show, write

    if options.csv:
        if len(options.directories) != 2:
            raise KymographError("--csv compares two directories; name both")
        first, second = options.directories
        found = judge_csv(first, second, options.claims)
    else:
        if len(options.directories) != 1:
            raise KymographError("judge one directory of runs, or two of CSV files with --csv")
        found = judged(options.directories[0], options.claims, settings(options.where))
    show(found)
    for path in write(found, options.json, options.markdown):
        print(path)
    return 0


def register(words: list[str]) -> int:
    """Registers claims of one's own."""
    options = _parse("RegisterOptions", words, "kymograph register")
    from kymograph.claims.registration import read, standing
    from kymograph.lab.judge import register_file

    claims = register_file(options.directory, options.claims)
    registered = read(Path(options.directory))
    for claim in claims:
        print(f"{claim.hash[:16]}  {standing(claim, registered)}: {claim.name}")
    return 0


def selftest(words: list[str]) -> int:
    """Judges the judge."""
    options = _parse("SelftestOptions", words, "kymograph selftest")
    if options.worlds < 100:
        raise KymographError(f"fewer than 100 worlds tell nothing; {options.worlds} were asked for")
    from kymograph.claims.selftest import worlds

    print(f"{'world':<22} {'n':>3} {'worlds':>7} {'supported':>10} {'refuted':>8}  wanted")
    failed = 0
    for found in worlds(options.worlds, options.seed):
        failed += not found.passed
        line = f"{found.kind:<22} {found.n:>3} {found.worlds:>7,} {found.supported:>10.1%} {found.refuted:>8.1%}"
        print(f"{line}  {found.wanted}: {'yes' if found.passed else 'NO'}", flush=True)
    return 1 if failed else 0


def rules(words: list[str]) -> int:
    """Proves the learning rules."""
    options = _parse("RulesOptions", words, "kymograph rules")
    from kymograph.lab.proof import tell

    text, holds = tell(options.model, options.seed)
    print(text)
    return 0 if holds else 1


def audit(words: list[str]) -> int:
    """Audits a trained network; exits with 0 whatever the answers are, unless --strict is given."""
    options = _parse("AuditOptions", words, "kymograph audit")
    if options.data_dir is not None:
        os.environ["KYMOGRAPH_DATA"] = options.data_dir
    if options.images < 2:
        raise KymographError(f"images must be at least 2, not {options.images}")
    from kymograph.lab.audit import audit_command

    chosen = {name: getattr(options, name) for name in ("data", "images", "ladder", "ladder_out", "seed", "quiet")}
    text, passed = audit_command(options.network, chosen, options.output)
    print(text)
    return 1 if options.strict and not passed else 0


def fetch(words: list[str]) -> int:
    """Downloads a data set."""
    options = _parse("FetchOptions", words, "kymograph fetch")
    from kymograph.data.cifar10_files import fetch as fetch_cifar10

    print(fetch_cifar10(options.directory))
    return 0


def reproduce(words: list[str]) -> int:
    """Runs all studies, judges their claims, draws their figures and writes the report."""
    options = _parse("ReproduceOptions", words, "kymograph reproduce")
    from kymograph.lab.reproduce import reproduce as everything

    if options.data_dir is not None:
        os.environ["KYMOGRAPH_DATA"] = options.data_dir
    return everything(
        options.out,
        options.n_seeds,
        options.engine,
        options.workers,
        data=options.data,
        quick=options.quick,
        epochs=options.epochs,
        device=options.device,
    )


def bench(words: list[str]) -> int:
    """Times this package."""
    options = _parse("BenchOptions", words, "kymograph bench")
    from kymograph.bench.compare import bench as compare

    return compare(options.names, options.repeats, options.markdown, options.readme)


VERBS: dict[str, Callable[[list[str]], int]] = {
    "list": list_,
    "run": run,
    "reproduce": reproduce,
    "watch": watch,
    "figure": figure,
    "report": report,
    "calibrate": calibrate,
    "judge": judge,
    "register": register,
    "rules": rules,
    "selftest": selftest,
    "audit": audit,
    "export": export,
    "fetch": fetch,
    "bench": bench,
}


def _parse(kind: str, words: Sequence[str], program: str) -> Any:
    from kymograph.cli import options
    from kymograph.cli.arguments import parse

    return parse(getattr(options, kind), words, program)


if __name__ == "__main__":
    main()
