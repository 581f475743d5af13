"""A worker process: reads orders as JSON lines, computes them on one thread, answers with progress and outcomes.

Started as ``python -m kymograph._sweep.worker`` rather than through `multiprocessing`, so that a user's script or
notebook needs no main guard and nothing is pickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import platform
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.documents import parse_json
from kymograph._runs.provenance import provenance
from kymograph._runs.record import is_finished
from kymograph._sweep.compute import RunOutcome, Workplace, choose_device, compute, import_torch, record_failure
from kymograph._sweep.orders import Order, this_package
from kymograph._sweep.progress import Follower
from kymograph._sweep.rank_group import rank_group
from kymograph._sweep.worker_process import die_with_parent, environment

WORKER = (sys.executable, "-P", "-m", "kymograph._sweep.worker")
"""The command that starts a worker; -P keeps it from importing modules of the current directory."""
SILENT = "--silent"
"""The option to answer with outcomes only, without progress, where the answers are a file on a shared disk."""


def main() -> None:
    """Computes orders from standard input until it ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and closes or kills this process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    errors = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()  # None: it is closed
    os.dup2(errors, sys.stdout.fileno())  # a stray print must not look like an answer

    def answer(**message: Any) -> None:
        print(json.dumps(message), file=answers, flush=True)

    class Parent(Follower):
        """The process at the other end of the pipe."""

        def tick(self, steps: int) -> None:
            """Passes the steps on."""
            answer(steps=steps)

        def say(self, text: str) -> None:
            """Passes the text on."""
            answer(say=text)

    follower = Follower() if SILENT in sys.argv[1:] else Parent()
    for line in sys.stdin:
        answer(**carry_out(Order.from_json(parse_json(line.encode())), follower))


def carry_out(order: Order, follower: Follower) -> dict[str, Any]:
    """Computes an order on one thread of this process; returns its outcomes, or an error, in JSON types.

        {"outcomes": [{"run": ID, "status": "finished", "reason": null}, ...]}
        {"error": "cannot write to /scratch/runs on node7: Read-only file system; ..."}

    An unexpected exception is recorded with its traceback as the failure of every run of the order that is not stored,
    because what a worker prints is lost.
    """
    with environment(order.environment):
        try:
            outcomes = _outcomes(order, follower)
        except KymographError as error:
            return {"error": str(error)}
    return {"outcomes": [dataclasses.asdict(outcome) for outcome in outcomes]}


def _outcomes(order: Order, follower: Follower) -> list[RunOutcome]:
    try:
        import_torch().set_num_threads(1)
        check_here(order)
        study = order.load_study(as_ordered=True)
        _check_data(study, order)
        device = choose_device(order.device)
        with rank_group(order, device):
            return compute(study, order.stack, Workplace.of(order, device, follower))
    except KymographError:
        raise
    except Exception as error:
        root, origin = Path(order.directory), {**provenance(order.device, 1), "log": list(order.log)}
        unstored = [spec for spec in order.stack.missing_specs if not is_finished(root, spec)]
        return [
            record_failure(root, spec, error, origin) if spec in unstored else RunOutcome(spec.id, "finished")
            for spec in order.stack.specs
        ]


def check_here(order: Order) -> None:
    """Raises if this process has another version of the package, or cannot write to the output directory."""
    host, installed = platform.node(), this_package()
    if order.package and order.package != installed:
        packages = (installed, order.package)
        versions = [f"kymograph {package.get('version')} (code {package.get('code')})" for package in packages]
        raise KymographError(
            f"{host} has {versions[0]} and the sweep was started with {versions[1]}; install the same version on both"
        )
    root = Path(order.directory)
    # A missing directory is not created: without the shared disk, runs would be stored where nobody looks.
    if not root.is_dir():
        raise KymographError(f"there is no directory {root} on {host}; every worker must see the output directory")
    study = order.stack.study_directory(root)
    directory = study if study.is_dir() else root
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise KymographError(
            f"cannot write to {directory} on {host}: {error.strerror}; choose another output directory"
        ) from None


def _check_data(study: Any, order: Order) -> None:
    """Raises if the data that the runs need are not on this machine."""
    specs = [study.typed(spec) for spec in order.stack.specs]
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the driver has already shown the same notes
            study.prepare(specs, None if order.data_dir is None else Path(order.data_dir))
    except KymographError as error:
        raise KymographError(f"on {platform.node()}: {error}") from None


if __name__ == "__main__":
    main()
