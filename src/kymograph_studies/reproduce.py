"""Every study in one go: the scripts' own set-ups first, then the repaired ones, then the verdicts.

After an interruption the same command continues where it stopped: stored runs are not computed again, and figures that
were drawn from the same runs are not drawn again.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from kymograph import Store, Study, Verdict, Verdicts, judge, load_study
from kymograph._claims.verdict import decisive_p, effect_text, settings_text
from kymograph._experiments.result_text import failure_text, headline_table
from kymograph._experiments.running import choose_seeds, run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._io.files import check_inside
from kymograph._pictures.figures import file_name
from kymograph._pictures.report_page.page import write_report
from kymograph._pictures.verdict_table import MARGIN, count_text, print_verdicts, unbroken, write_verdicts
from kymograph._runs.directory import Directory
from kymograph._runs.provenance import code_hash
from kymograph._wording import folded, line_width
from kymograph.formats import write_atomically
from kymograph_studies.verdict_page import verdict_page

SEEDS = 10  # fewer could not decide the claims of a study together
QUICK_EPOCHS, EPOCHS = 10, 20  # on digits, where the picture is clear long before the default of 60
CIFAR_EPOCHS = 30  # as published for the calibration; the snapshot script's own 100 would take ten hours
VIT = ("vit/bp", "vit/dfa")
VIT_EPOCHS, VIT_SEEDS = 3, 3  # an epoch takes minutes on a CPU: enough to look at, too few for a verdict
# `rule-family` on other images than its own: enough to look at, too few seeds for a verdict.
FAMILY_ELSEWHERE = ("mlp/bp", "mlp/fa", "mlp/usf", "mlp/kp", "mlp/dfa", "mlp/drtp", "mlp/shallow", "conv/*")
FAMILY_SEEDS = 3
SHOWN = 5  # verdicts on the last screen
_OUTCOME_ORDER = ("REFUTED", "SUPPORTED", "EQUIVALENT", "INCONCLUSIVE", "INVALID")
_SETUPS = ("script", "transfer", "altered", "repaired", "own")


@dataclass(frozen=True)
class Stage:
    """Some arms of a study with some settings."""

    study: str
    name: str
    """The directory of its figures."""
    arms: Sequence[str] | None = None
    """None: the study's default arms."""
    fields: dict[str, Any] = field(default_factory=dict)
    draw: bool = True
    most_seeds: int | None = None
    """Only this many of the seeds, from the first."""


def stages(data: str, quick: bool, epochs: int | None) -> Iterator[Stage]:
    """Yields what is run, in order: the scripts' own set-up of each study, then the repaired one."""
    if data == "digits":  # the other studies generate their own data, so one pass is enough
        yield Stage("clipping", "clipping")
        yield Stage("clipping", "clipping-learnable", ("learnable/*",))
        yield Stage("depth", "depth", fields={"task": "identity"})
        yield Stage("depth", "depth-orthogonal", fields={"task": "orthogonal"})
    shared: dict[str, Any] = {"data": data}
    if epochs is None and data in ("digits", "cifar10"):
        epochs = CIFAR_EPOCHS if data == "cifar10" else QUICK_EPOCHS if quick else EPOCHS
    if epochs is not None:
        shared["epochs"] = epochs
    yield Stage("snapshot", "snapshot", fields=shared)
    yield from claimed_stages(load_study("snapshot"), VIT, shared)
    yield Stage("calibration", "calibration", fields={**shared, "log_every": 5})
    if data == "cifar10" and not quick:
        fields = {**shared, "epochs": VIT_EPOCHS}
        yield Stage("snapshot", "snapshot-vit", VIT, fields, most_seeds=VIT_SEEDS)


def claimed_stages(study: Study[Any], apart: Collection[str], shared: Mapping[str, Any]) -> Iterator[Stage]:
    """Yields what the study's claims need beyond its default arms: a stage for each set of settings they ask for.

    Args:
        study: the study.
        apart: arms that have a stage of their own.
        shared: settings of every stage, which those that a claim asks for override.
    """
    covered = {*apart, *(arm.name for arm in study.arms() if arm.default)}
    needed: dict[tuple[tuple[str, Any], ...], list[str]] = {(): []}
    for claim in study.claims():
        for side in claim.every_side:
            arms = needed.setdefault(tuple(sorted(side.where.items())), [])
            if side.arm not in arms and (side.where or side.arm not in covered):
                arms.append(side.arm)
    for where, arms in needed.items():
        endings = {arm.rpartition("/")[2] for arm in arms}  # e.g. the optimizer whose learning rate a claim states
        settings = "-".join(f"{name}={value}" for name, value in where)
        name = "controls" if not where else endings.pop() if len(endings) == 1 else settings
        if arms:
            yield Stage(study.name, f"{study.name}-{name}", tuple(arms), {**shared, **dict(where)}, draw=False)


def default_stage(study: str, data: str) -> Stage:
    """Returns a study with its default arms, on another data set than its own if that is named."""
    if data == "digits":
        return Stage(study, "all")
    if study == "rule-family":
        return Stage(study, "all", FAMILY_ELSEWHERE, {"data": data}, most_seeds=FAMILY_SEEDS)
    return Stage(study, "all", fields={"data": data})


def reproduce(
    options: ComputeOptions,
    n_seeds: int | None = None,
    *,
    data: str = "digits",
    quick: bool = False,
    epochs: int | None = None,
    study: str | None = None,
) -> int:
    """Runs all studies below ``options.out``, draws figures, prints tables and verdicts, writes the report.

    ``study`` restricts it to one study, with its default arms and settings. Returns the exit code: 0 only if every run
    finished.
    """
    root = Path(options.out)
    seeds = choose_seeds(None, SEEDS if n_seeds is None else n_seeds)
    failed = submitted = 0
    ids: set[str] = set()
    studies: dict[str, Study[Any]] = {}
    for stage in stages(data, quick, epochs) if study is None else [default_stage(study, data)]:
        done = run_sweep(stage.study, seeds[: stage.most_seeds], options, arms=stage.arms, fields=stage.fields)
        failed += len(done.failures)
        submitted += done.submitted + (0 if done.tuning is None else done.tuning.submitted)
        if done.submitted:
            continue
        studies[done.study.name] = done.study
        ids |= done.planned
        fields = (f"{name}={value}" for name, value in stage.fields.items())
        setting = " ".join([*(stage.arms or ["default arms"]), *fields])
        print(f"\n{done.study.name}, {setting}: {done.computed} runs computed, {done.found} found")
        print(headline_table(done.study, done.store.finished))
        if done.failures:
            print(failure_text(done.failures, done.store, root, options.debug), file=sys.stderr)
        if stage.draw:
            check_inside(root / "figures" / stage.name, root)
            _draw(done.study, done.store, root / "figures" / stage.name)
    if submitted:
        print(f"{submitted} runs are in the queue; run the same command again when they have ended")
        return 1 if failed else 0
    # The directory may hold runs with other settings, e.g. of an earlier `--quick`; only the runs above are judged.
    directory = Directory(root).checked()
    verdicts = judge(directory, only=ids)
    print()
    print_verdicts(verdicts)
    (data_path,) = write_verdicts(verdicts, str(root / "verdicts.json"), None)
    given = [*(["--study", study] if study else []), *(["--data", data] if data != "digits" else [])]
    command = " ".join(["kymograph reproduce", *given])
    text = verdict_page(verdicts, directory, studies.values(), ids, data, command, study or "")
    write_atomically(root / "verdicts.md", text.encode())
    page = write_report(directory, verdicts, root / "report.html", only=ids)
    print()
    files = {"Report": page, "All verdicts": root / "verdicts.md", "as data": data_path}
    print("\n".join(closing_lines(verdicts, files, root, line_width())))
    return 1 if failed else 0


def _draw(study: Study[Any], store: Store, directory: Path) -> None:
    """Draws the study's figures, except those already drawn from the same runs by the same code."""
    from kymograph._pictures.saving import save_stale

    draws = {file_name(name): draw for name, draw in study.figures().items()}
    _, kept = save_stale(store, draws, directory, code_hash(), ("png", "pdf"))
    print(f"figures: {directory}" + (f" ({kept} were up to date)" if kept else ""))


def verdicts_to_show(verdicts: Sequence[Verdict], count: int = SHOWN) -> list[Verdict]:
    """Returns the verdicts to show first, from each study in turn: REFUTED before SUPPORTED before undecided ones.

    Within an outcome, the scripts' own set-ups come first, then the smallest p. Manipulation checks are left out.
    """
    by_study: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.claim.kind is None:
            by_study.setdefault(verdict.claim.study, []).append(verdict)
    ranked = [sorted(group, key=_rank) for group in by_study.values()]
    turns = [verdict for verdict in chain.from_iterable(zip_longest(*ranked)) if verdict is not None]
    return sorted(turns[:count], key=_rank)


def _rank(verdict: Verdict) -> tuple[int, int, float]:
    setup = _SETUPS.index(verdict.setup) if verdict.setup in _SETUPS else len(_SETUPS)
    return _OUTCOME_ORDER.index(verdict.outcome), setup, 1.0 if verdict.p is None else verdict.p


def closing_lines(verdicts: Verdicts, written: Mapping[str, Path], out: Path, width: int) -> Iterator[str]:
    """Yields the lines of the last screen: some verdicts, the files ``written`` by label, and what to type next."""
    yield folded(count_text(verdicts), width)
    yield ""
    shown = verdicts_to_show(verdicts)
    for verdict in shown:
        yield folded(verdict.claim.name, width, str(verdict.outcome).ljust(MARGIN), " " * MARGIN)
        p = decisive_p(verdict)
        evidence = ", ".join(filter(None, (effect_text(verdict), f"p {p}" if p else "", f"n {verdict.n}")))
        # A claim of the same name may be judged in several set-ups, with different verdicts.
        yield folded(f"{verdict.claim.study}, {settings_text(verdict)}: {unbroken(evidence)}", width, " " * MARGIN)
    yield ""
    labels = max(map(len, written))
    for label, path in written.items():
        yield f"{label:<{labels}}  {path}"
    yield ""
    yield "Next:"
    for command in next_commands(out, shown[0].claim.study if shown else None):
        yield f"  {command}"


def next_commands(out: Path, study: str | None) -> Iterator[str]:
    """Yields the next commands: activating the environment if the shell does not find `kymograph`, then a study's."""
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("kymograph") is None and activate.exists():
        yield f"source {os.path.relpath(activate)}"
    if study is not None:
        yield f"kymograph judge {out} --study {study}"
        yield f"kymograph figure {study}-differences --dir {out}"
    yield "kymograph new study mine"
