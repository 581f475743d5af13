"""Carries out an order in a worker; anything missing there is reported in one sentence before training."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.provenance import provenance
from kymograph.runs.record import is_finished
from kymograph.runs.spec import slug
from kymograph.sweep.compute import Follower, RunOutcome, Workplace, compute, record_failure
from kymograph.sweep.devices import choose_device, import_torch
from kymograph.sweep.orders import Order, this_package


def carry_out(order: Order, follower: Follower) -> dict[str, Any]:
    """Computes an order on one thread of this process; returns its outcomes, or an error, in JSON types.

    {"outcomes": [{"run": ID, "status": "finished", "reason": null}, ...]}
    {"error": "cannot write to /scratch/runs on node7: Read-only file system; ..."}

    An unexpected exception is recorded with its traceback as the failure of every run of the order that is not stored,
    because what a worker prints is lost.
    """
    with environment(order.environment):
        try:
            try:
                outcomes = _computed(order, follower)
            except Exception as error:
                if isinstance(error, KymographError):
                    raise
                outcomes = _failed(order, error)
        except KymographError as error:
            return {"error": str(error)}
    return {"outcomes": [dataclasses.asdict(outcome) for outcome in outcomes]}


def _computed(order: Order, follower: Follower) -> list[RunOutcome]:
    import_torch().set_num_threads(1)
    check_here(order)
    study = order.load_study(as_ordered=True)
    _check_data(study, order)
    return compute(study, order.stack, workplace(order, choose_device(order.device), follower))


def _failed(order: Order, error: Exception) -> list[RunOutcome]:
    """Records ``error`` as the failure of those runs of an order that are not stored; returns all outcomes."""
    root, facts = Path(order.directory), {**provenance(order.device, 1), "log": list(order.log)}
    pairs = zip(order.stack.specs, order.stack.missing, strict=True)
    return [
        record_failure(root, spec, error, facts)
        if missing and not is_finished(root, spec)
        else RunOutcome(spec.id, "finished")
        for spec, missing in pairs
    ]


def workplace(order: Order, device: str, follower: Follower) -> Workplace:
    """Returns the workplace of an order."""
    data_dir = None if order.data_dir is None else Path(order.data_dir)
    return Workplace(device, follower, Path(order.directory), data_dir, order.log)


def check_here(order: Order) -> None:
    """Raises if this process has another version of the package, or cannot write to the output directory."""
    host, installed = platform.node(), this_package()
    if order.package and order.package != installed:
        versions = [f"kymograph {one.get('version')} (code {one.get('code')})" for one in (installed, order.package)]
        raise KymographError(
            f"{host} has {versions[0]} and the sweep was started with {versions[1]}; install the same version on both"
        )
    root = Path(order.directory)
    # A missing directory is not created: without the shared disk, runs would be stored where nobody looks.
    if not root.is_dir():
        raise KymographError(f"there is no directory {root} on {host}; every worker must see the output directory")
    study = root / slug(order.stack.specs[0].study)
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


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables and restores them on exit: a worker may serve several sweeps."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.update({name: value for name, value in before.items() if value is not None})
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
