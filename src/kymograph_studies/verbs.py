"""The verbs of the science: audit, calibrate, fetch, reproduce, rules, variance."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from kymograph import KymographError
from kymograph._cli.arguments import (
    DeviceOptions,
    EngineOptions,
    Formerly,
    given,
    parse_with_settings,
    parts_of,
    seeds_from,
    with_engine_options,
)
from kymograph._cli.output import fitting_output, note
from kymograph.verbs import Choices, UsageError, at_least, choice, parse, positional, shown

PARTS = {
    "audit": {
        "attribute": "audit_verb",
        "options": "AuditOptions",
        "about": "scale, reference and depth of a trained network: PASS or FAIL, with the numbers",
        "usage": "audit NETWORK",
        "group": "science",
        "order": 430,
    },
    "calibrate": {
        "attribute": "calibrate_verb",
        "options": "CalibrateOptions",
        "about": "a trained network's credit cosines against their nulls",
        "usage": "calibrate CHECKPOINT",
        "group": "science",
        "order": 420,
    },
    "fetch": {
        "attribute": "fetch_verb",
        "options": "FetchOptions",
        "about": "download CIFAR-10 and check it; nothing else is ever downloaded",
        "usage": "fetch cifar10 -o DIR",
        "group": "maintenance",
        "order": 520,
    },
    "reproduce": {
        "attribute": "reproduce_verb",
        "options": "ReproduceOptions",
        "about": "run every study, judge every claim, draw the figures, write the report",
        "group": "science",
        "order": 410,
        "debug": True,
    },
    "rules": {
        "attribute": "rules_verb",
        "options": "RulesOptions",
        "about": "what every part of a network learns from under each rule, checked against autograd",
        "usage": "rules [FILE.py:FUNCTION]",
        "group": "science",
        "order": 440,
    },
    "variance": {
        "attribute": "variance_verb",
        "options": "VarianceOptions",
        "about": "run a study with one source of variance at a time: initialisation, order, feedback, split",
        "usage": "variance STUDY",
        "group": "science",
        "order": 450,
        "debug": True,
        "settings": True,
    },
}
LEAST_DRAWS = 19
"""With fewer, no Monte-Carlo p-value can reach 0.05."""


def _downloads() -> Iterable[str]:
    """Returns the data sets that are files."""
    from kymograph_studies.data import DATA_SETS as registry

    return (name for name, part in registry.parts().items() if "files" in part.properties)


DATA_SETS = Choices("data set", parts_of("kymograph_studies.data", "DATA_SETS"))
DOWNLOADS = Choices("data set to download called", _downloads)
MODELS = Choices("model", parts_of("kymograph_studies.models", "MODELS"))
NULLS = Choices("null", parts_of("kymograph_studies.analysis", "NULLS"))


@dataclass(frozen=True)
class TestDataOptions(DeviceOptions):
    """The test images and the device that a trained network is measured on."""

    data: Annotated[str | None, choice(DATA_SETS), shown(default="those it was trained on; cifar10 for a .pt file")] = (
        None
    )
    """Test images."""


@dataclass(frozen=True)
class AuditOptions:
    """Audit the scale, reference and depth of a trained network: PASS or FAIL, with numbers and thresholds."""

    network: Annotated[str, positional(), shown("NETWORK")]
    """A run's directory, its checkpoint.safetensors, or a .pt file of the calibration script."""
    images: int = 1024
    """Number of test images; all of them if there are fewer."""
    ladder: bool = True
    """Train the frozen baseline and the ladder of last-k blocks where they are missing."""
    dir: Annotated[str | None, shown("DIR", default="that of the audited run"), Formerly("--ladder-out")] = None
    """Directory for these runs."""
    seed: int = 0
    """Seed of the random perturbations and steps."""
    output: Annotated[str | None, shown("FILE", short="-o", default="none")] = None
    """Also write everything to this JSON file."""
    strict: bool = False
    """Exit with 1 unless all three answers are PASS."""
    quiet: bool = False
    """Show no progress."""
    test_data: TestDataOptions = field(default_factory=TestDataOptions)


def audit_verb(words: list[str]) -> int:
    """Audits a trained network; returns 0 whatever the answers are, unless --strict is given."""
    options = parse(AuditOptions, words, "kymograph audit")
    at_least("images", options.images, 2)
    from kymograph_studies.audit.checkpoint import audit

    audited = audit(
        options.network,
        images=options.images,
        ladder=options.ladder,
        ladder_out=options.dir,
        seed=options.seed,
        quiet=options.quiet,
        **vars(options.test_data),
    )
    written = None if options.output is None else audited.write(Path(options.output))
    print(audited.table())
    if written is not None:
        print(written)
    return 1 if options.strict and not audited.passed else 0


@dataclass(frozen=True)
class CalibrateOptions:
    """Compare a trained network's credit cosines with their nulls."""

    checkpoint: Annotated[str, positional(), shown("CHECKPOINT")]
    """A run's directory, its checkpoint.safetensors, or a .pt file of the calibration script."""
    images: int = 2048
    """Number of test images; all of them if there are fewer."""
    draws: int = 999
    """Draws from each null."""
    nulls: Annotated[tuple[str, ...], choice(NULLS, several=True), shown(default="all")] = ()
    """Which nulls; `fresh`, new matrices from the same distribution, is always included."""
    seed: int = 0
    """Seed of the nulls."""
    output: Annotated[str, shown("DIR", short="-o"), Formerly("--out")] = "calibration"
    """Directory for calibration.json and the histograms."""
    test_data: TestDataOptions = field(default_factory=TestDataOptions)


def calibrate_verb(words: list[str]) -> int:
    """Prints the table of a network's cosines and nulls; writes it as JSON and draws the histograms."""
    options = parse(CalibrateOptions, words, "kymograph calibrate")
    at_least("draws", options.draws, LEAST_DRAWS)
    at_least("images", options.images, 2)
    from kymograph_studies.calibration.checkpoint import calibrate_checkpoint, table, write_calibration

    calibration = calibrate_checkpoint(
        options.checkpoint,
        images=options.images,
        draws=options.draws,
        nulls=options.nulls or None,
        seed=options.seed,
        **vars(options.test_data),
    )
    print(table(calibration))
    for path in write_calibration(calibration, Path(options.output)):
        print(path)
    return 0


@dataclass(frozen=True)
class FetchOptions:
    """Download a data set from its official address and check it."""

    name: Annotated[str, positional(), choice(DOWNLOADS)]
    """What to fetch."""
    output: Annotated[str, shown("DIR", short="-o")]
    """Where to put it; pass this directory as `--data-dir` or KYMOGRAPH_DATA."""


def fetch_verb(words: list[str]) -> int:
    """Downloads a data set; prints its directory."""
    if len(words) == 2 and not any(word.startswith("-") for word in words):
        note("`kymograph fetch NAME DIR` is now `kymograph fetch NAME -o DIR`")
        words = [words[0], "-o", words[1]]
    options = parse(FetchOptions, words, "kymograph fetch")
    from kymograph_studies.data import DATA_SETS

    files = importlib.import_module(DATA_SETS.part(options.name).properties["files"])
    print(files.fetch(options.output))
    return 0


@dataclass(frozen=True)
class ReproduceOptions:
    """Run every study, judge every claim, draw the figures and write the report."""

    dir: Annotated[str, shown("DIR"), Formerly("--out")] = "runs/reproduce"
    """Directory of the runs."""
    quick: bool = False
    """Shorter training in the image studies."""
    data: Annotated[str, choice(DATA_SETS)] = "digits"
    """Images: scikit-learn's digits (embedded), CIFAR-10 (takes hours), or another data set."""
    epochs: Annotated[
        int | None, shown("N", default="20 on digits, 10 if --quick; 30 on cifar10; else the study's")
    ] = None
    """Epochs of the image studies."""
    study: Annotated[str | None, shown("STUDY", default="those of the scripts")] = None
    """Only this study, with its default arms and settings: its name, file.py or module:Name."""
    n_seeds: Annotated[int | None, shown("N", default="10")] = None
    """Number of seeds, from the fixed list."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def reproduce_verb(words: list[str]) -> int:
    """Runs all studies, judges their claims, draws their figures and writes the report."""
    options = parse(with_engine_options(ReproduceOptions, words), words, "kymograph reproduce")
    if options.study is not None and (options.quick or options.epochs is not None):
        raise KymographError("--quick and --epochs apply to the scripts' studies; drop them, or --study")
    from kymograph_studies.reproduce import reproduce

    return reproduce(
        options.compute.compute_options(options.dir, options),
        options.n_seeds,
        data=options.data,
        quick=options.quick,
        epochs=options.epochs,
        study=options.study,
    )


@dataclass(frozen=True)
class RulesOptions:
    """Print the credit plan of every learning rule, each line proved in the way that the rule declares.

    Exits with 1 if a line does not hold.
    """

    network: Annotated[str | None, positional(), shown("[FILE.py:FUNCTION]", default="a network of snapshot")] = None
    """A function that returns your own network, or (network, x, y), or (network, x, y, loss)."""
    blocks: Annotated[tuple[str, ...], shown("NAME ...", default="those that the network has")] = ()
    """The submodules of your own network that are blocks, in order, for the rules that act on blocks."""
    model: Annotated[str, choice(MODELS)] = "resmlp"
    """The network of snapshot to use, if you name none of your own."""
    seed: int = 42
    """Seed of the weights and the feedback matrices."""
    device: Annotated[str, shown("DEVICE")] = "auto"
    """auto, cpu, cuda or cuda:N; the arithmetic is float64, which mps does not have."""


def rules_verb(words: list[str]) -> int:
    """Prints the plans and what was measured; returns 0 only if every line holds."""
    options = parse(RulesOptions, words, "kymograph rules")
    from kymograph_studies.prove_rules import rules_text

    text, holds = rules_text(options.model, options.seed, options.device, options.network, options.blocks)
    print(text)
    return 0 if holds else 1


@dataclass(frozen=True)
class VarianceOptions:
    """What to run and where; the study's own settings follow."""

    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the fixed list")] = ()
    """Explicit seeds, e.g. --seeds 42 123 456."""
    n_seeds: Annotated[int | None, shown("N", default="10 if no seeds are given")] = None
    """The first N of the fixed list of seeds, for every source."""
    sources: Annotated[tuple[str, ...], shown("SOURCE ...", default="every source that the study has")] = ()
    """Sources to vary one at a time; all of them together come first in any case."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="the study's default arms")] = ()
    """Arms by name or pattern, e.g. 'resmlp/*'."""
    dir: Annotated[str, shown("DIR"), Formerly("--out")] = "runs"
    """Directory of the runs."""
    quiet: bool = False
    """Show no progress."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def variance_verb(words: list[str]) -> int:
    """Runs the sweeps and prints the table; returns 0 only if every run finished."""
    if not words or words[0] in ("-h", "--help"):
        with fitting_output():
            print("usage: kymograph variance STUDY [options]\n")
            print(
                "Runs a study with all sources of variance together, then with one at a time, and prints what each "
                "contributes. `kymograph variance STUDY --help` lists the options and every setting of the study."
            )
        return 0 if words else 2
    if words[0].startswith("-"):
        raise UsageError(f"name the study before its options: kymograph variance STUDY {words[0]} ...")
    from kymograph import load_study

    study = load_study(words[0])
    options, fields = parse_with_settings(
        VarianceOptions, study.config_type, words[1:], f"kymograph variance {words[0]}"
    )
    for name in ("seeds", "sources"):
        if name in given(VarianceOptions, words[1:]) and not getattr(options, name):
            raise UsageError(f"--{name} needs at least one {name.removesuffix('s')}")
    from kymograph import Store
    from kymograph._experiments.result_text import failure_text
    from kymograph._experiments.running import choose_seeds
    from kymograph_studies.variance import table, vary_sources

    done = vary_sources(
        words[0],
        choose_seeds(seeds_from(options.seeds) if options.seeds else None, options.n_seeds),
        options.compute.compute_options(options.dir, options, options.quiet),
        arms=options.arms or None,
        sources=options.sources,
        fields=fields,
    )
    sweeps = done.sweeps.values()
    computed, stored = sum(swept.computed for swept in sweeps) - done.failures, sum(swept.found for swept in sweeps)
    print(f"{study.name}: {computed} runs computed, {stored} found, {done.failures} failed; in {options.dir}\n")
    print(table(done.arms))
    if done.failures:
        failed = [outcome for swept in sweeps for outcome in swept.failures]
        runs = Store(run for swept in sweeps for run in swept.store)
        print(failure_text(failed, runs, options.dir, options.compute.debug), file=sys.stderr)
    return 1 if done.failures else 0
