"""Behind ``kymograph audit``: checks scale, reference and depth of a trained network, each PASS or FAIL.

Where it is missing, the ladder of last-k trainable blocks is trained by the study `audit` and stored next to the
audited run, so that a second audit trains nothing.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kymograph import KymographError, Store, StoredRun
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._io.files import real_path
from kymograph._io.writing import plain
from kymograph._runs.record import STATUS
from kymograph.formats import make_directory, write_atomically
from kymograph.studies import choose_device
from kymograph_studies.audit import DEEPEST, Audit, AuditConfig

if TYPE_CHECKING:
    from torch import Tensor

    from kymograph_studies.audit.questions import Answer
    from kymograph_studies.training.trained_networks import Trained


LADDER_OF = {"bp": "bp", "dfa": "dfa", "shallow": "bp", "frozen": "bp"}
"""The rule whose ladder a network is compared with, by the network's rule: one that trains blocks in the same way."""
THREE = ("scale stability", "reference validity", "depth utility")


@dataclass(frozen=True)
class Audited:
    """The answers about one network."""

    network: str
    answers: tuple[Answer, ...]

    @property
    def passed(self) -> bool | None:
        """Whether the three questions of the protocol are all answered with PASS; None if one cannot be decided."""
        words = [answer.passed for answer in self.answers if answer.question in THREE]
        return False if False in words else None if None in words else True

    def table(self) -> str:
        """Returns the answers as text, a paragraph per question."""
        lines = []
        for answer in self.answers:
            lines.append(f"{answer.word:<11} {answer.question}: {answer.found}")
            lines.append(f"            threshold: {answer.threshold}" + (f"; {answer.why}" if answer.why else ""))
        failed = [answer.question for answer in self.answers if answer.question in THREE and answer.passed is False]
        verdict = {True: "PASS", False: f"FAIL ({', '.join(failed)})", None: "CANNOT TELL"}[self.passed]
        return "\n".join([*lines, "", f"{self.network}: {verdict}"])

    def to_json(self) -> dict[str, Any]:
        """Returns the answers with all their numbers."""
        answers = [{**vars(answer), "answer": answer.word} for answer in self.answers]
        content = {"schema": 1, "network": self.network, "passed": self.passed, "answers": answers}
        return {name: plain(value) for name, value in content.items()}

    def write(self, path: Path) -> Path:
        """Writes the answers with all their numbers as JSON; returns the path."""
        make_directory(path.parent)
        write_atomically(path, (json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n").encode())
        return path


def audit(
    path: str | Path,
    *,
    data: str | None = None,
    images: int = 1024,
    ladder: bool = True,
    ladder_out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    data_dir: str | Path | None = None,
    quiet: bool = False,
) -> Audited:
    """Audits a trained network: a run's directory, its checkpoint, or a ``.pt`` of the calibration script.

    >>> run, = ky.run("snapshot", seeds=[42], arms=["resmlp/dfa"], epochs=1, width=16, engine="serial", quiet=True)
    >>> audited = ky.audit(run.directory, images=64, ladder=False, quiet=True)
    >>> [answer.question for answer in audited.answers]
    ['scale stability', 'reference validity', 'depth utility', 'perturbation correlation', 'descent']

    Args:
        path: the network.
        data: test images; default: those it was trained on, cifar10 for a ``.pt``.
        images: how many test images are used for the questions of scale and reference.
        ladder: whether the frozen baseline and the ladder may be trained where they are missing.
        ladder_out: where these runs are kept; default: next to the audited run.
        seed: the seed of the random perturbations and steps.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        data_dir: the directory of CIFAR-10; default: the variable KYMOGRAPH_DATA.
        quiet: shows no progress while the ladder trains.
    """
    from kymograph_studies.analysis.alarms import first_epochs
    from kymograph_studies.analysis.flow import correct_images
    from kymograph_studies.audit import questions
    from kymograph_studies.data.images import Batches
    from kymograph_studies.training.trained_networks import load

    chosen = choose_device(device)
    trained = load(path, need_feedback=False, data_dir=data_dir, device=chosen)
    task = trained.task(data, data_dir)
    batches = Batches(task, 128, chosen)
    x, y = batches.test(images)
    directory = Path(path) if Path(path).is_dir() else Path(path).parent
    run = StoredRun(directory) if (directory / STATUS).exists() else None
    alarms = None if run is None else first_epochs(_rows(run), int(run.summary["buffer_size"]))
    start = None if run is None else float(run.series["stream_norm"].value[0, -1])
    trained.check_images(x, task, path)
    reference, norms = questions.reference(trained.net, x, y, alarms)
    scale = questions.scale(norms, start, None if alarms is None else alarms["growth"])
    tests = batches.test()
    frozen: Tensor | None = None
    rungs: dict[int, float] = {}
    unknown = _unknown_rule(trained)
    config, known_start = trained.config, trained.seed is not None and trained.untrained is not None
    if ladder and not unknown and config is not None and known_start:
        here = real_path(directory)  # of a run, or of a lone file
        out = Path(ladder_out) if ladder_out is not None else here if run is None else here.parent.parent
        frozen, rungs = _ladder(trained, tests, ComputeOptions(out, "serial", None, chosen, data_dir, quiet))
    depth = questions.depth_utility(correct_images(trained.net, *tests), frozen, rungs, unknown)
    if unknown:
        function = [questions.cannot_tell(name, unknown) for name in ("perturbation correlation", "descent")]
    else:
        rms, penalty = (True, 0.0) if config is None else (config.rms, config.penalty)
        function = [
            questions.perturbation(trained.net, trained.feedback, x, y, seed),
            questions.step(trained.net, trained.feedback, rms, penalty, x, y, seed),
        ]
    return Audited(str(path), (scale, reference, depth, *function))


def _ladder(
    trained: Trained, tests: tuple[Tensor, Tensor], options: ComputeOptions
) -> tuple[Tensor | None, dict[int, float]]:
    """Trains missing rungs; returns which images the frozen baseline gets right, and each rung's accuracy."""
    from kymograph_studies.analysis.flow import correct_images
    from kymograph_studies.training.trained_networks import load

    config, trained_seed = trained.config, trained.seed
    assert config is not None and trained_seed is not None
    if config.depth > DEEPEST:
        raise KymographError(f"the ladder goes to {DEEPEST} blocks, not {config.depth}; audit with --no-ladder")
    rule = LADDER_OF[config.rule]
    shared = {field.name for field in dataclasses.fields(AuditConfig)} - {"rule", "last"}
    fields = {name: value for name, value in vars(config).items() if name in shared}
    bp_fields = {name: value for name, value in fields.items() if name not in ("rms", "clip", "penalty")}

    def stored(arms: Sequence[str], settings: dict[str, Any]) -> Store:
        done = run_sweep(Audit.name, [trained_seed], options, arms=arms, fields=settings)
        if done.failures:
            raise KymographError(f"the ladder could not be trained: {done.failures[0].reason}")
        return done.store

    rungs = [f"{rule}/last{k}" for k in range(config.depth + 1)]
    if not options.quiet:
        what = f"the ladder, {len(rungs)} networks of {config.epochs} epochs"
        print(f"{what}, is trained below {options.out} where it is missing; skip it with --no-ladder", file=sys.stderr)
    accuracies = {
        int(run.config["last"]): float(run.summary["test_accuracy"])
        for run in stored(rungs, bp_fields if rule == "bp" else fields)
        if run.summary["test_accuracy"] is not None  # None: it diverged
    }
    baseline = stored(["bp/last0"], bp_fields).runs[0]
    frozen = load(baseline.directory, need_feedback=False, data_dir=options.data_dir, device=options.device)
    return correct_images(frozen.net, *tests), accuracies


def _unknown_rule(trained: Trained) -> str:
    """Returns why a network's ladder and credit cannot be computed; empty if they can."""
    if trained.config is None or trained.config.rule in LADDER_OF:
        return ""
    rules = ", ".join(LADDER_OF)
    return f"the audit does not know the rule {trained.config.rule!r}: it repeats the training of {rules} only"


def _rows(run: StoredRun) -> list[dict[str, Any]]:
    """Returns the numbers that the alarms need, a row per measured epoch."""
    norms, gradients = run.series["stream_norm"], run.series["stream_grad"]
    rows = [
        {"epoch": epoch, "hidden_norms": norms.value[index], "grad_norms": gradients.value[index]}
        for index, epoch in enumerate(norms.step.tolist())
    ]
    if (errors := run.series.get("error_norm")) is not None:
        for row, error in zip(rows, errors.value, strict=True):
            row["error_norm"] = float(error)
    return rows
