"""A run of any training loop, recorded like a study's: no study, no function, no engine.

    with ky.record("mine", arm="adam", seed=3, config={"lr": 1e-3}) as run:
        for step in run.steps(1000):
            ...
            run.log(loss=loss)
        run.summary["accuracy"] = accuracy

The run counts as planned when it starts, so that an interrupted one shows as missing. Arms and seeds accumulate over
separate executions of a program.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sized
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from kymograph._claims.design import Terms
from kymograph._claims.registration import REGISTRATION, binding_terms
from kymograph._errors import KymographError
from kymograph._experiments.active_run import ActiveRun
from kymograph._experiments.function_study import summary_of
from kymograph._io.files import real_path
from kymograph._io.writing import make_directory, one_at_a_time
from kymograph._runs.declaration import Arm, Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.provenance import provenance
from kymograph._runs.record import RunResult, is_finished, pack_record, store_record
from kymograph._runs.spec import RunSpec
from kymograph._runs.tuned import SUFFIX, tuned_study
from kymograph._streams import MAX_SEED
from kymograph._studies.loading import STUDIES
from kymograph._sweep.code_identity import source_files, source_hash
from kymograph._sweep.code_loading import stop_while_loading
from kymograph._sweep.compute import choose_device, import_torch, record_failure
from kymograph._sweep.heartbeat import PARTIAL, Heartbeat
from kymograph._sweep.orders import Stack
from kymograph._sweep.progress import Follower

_SCALARS = (str, int, float, bool, type(None))
_NOTED: set[tuple[Path, str]] = set()  # the experiments about whose seeds a note was printed by this process


def record(
    study: str,
    *,
    arm: str,
    seed: int,
    config: Mapping[str, Any] | None = None,
    out: str | Path = "runs",
    if_exists: Literal["error", "skip", "replace"] = "error",
    device: str = "auto",
    question: str = "",
    headlines: Mapping[str, str] | None = None,
) -> RecordedRun | ExistingRun:
    """Starts recording a run of your own training loop; use it in a ``with`` block, or call `finish` at the end.

    Args:
        study: the name of the experiment; its runs are stored in ``OUT/STUDY``.
        arm: the condition.
        seed: the replication; runs of different arms are paired by it.
        config: the settings; nested ones are flattened (``optimizer.lr``).
        out: the directory that holds the runs.
        if_exists: what to do if the run is already recorded: raise an ``error``; ``skip`` it, which keeps the record,
            sets `exists` and makes ``run.steps`` empty; or ``replace`` it, which is logged and shown with verdicts.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``: ``run.device``.
        question: what the experiment asks.
        headlines: the summary numbers to show in tables, with their labels.
    """
    stop_while_loading()
    if study in STUDIES.parts():
        raise KymographError(f"{study!r} is a registered study; give your experiment another name")
    if tuned_study(study) is not None:
        raise KymographError(f"names that end in {SUFFIX!r} are reserved for tuning runs; choose another")
    if if_exists not in ("error", "skip", "replace"):
        raise KymographError(f"if_exists must be 'error', 'skip' or 'replace', not {if_exists!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise KymographError(f"a seed must be a whole number from 0 to {MAX_SEED}, not {seed!r}")
    directory = _directory(Path(out))
    root = directory.root
    make_directory(root)
    settings = flat_settings(config or {})
    declared = directory.declaration(study)
    spec = RunSpec(study, arm, seed, settings, 1 if declared is None else declared.version)
    if is_finished(root, spec):
        if if_exists == "skip":
            return ExistingRun(spec, choose_device(device))
        if if_exists == "error":
            raise KymographError(
                f"{study}, {arm}, seed {seed} is already recorded in {root}; skip it with if_exists='skip', or "
                "record it again with if_exists='replace'"
            )
        directory.replacing(spec)
    _note_other_seed(directory, study, seed)
    with one_at_a_time(root):
        directory.log.refresh()
        _declare(directory, study, arm, settings, question, headlines or {})
        directory.plan([spec])
    return RecordedRun(directory, spec, choose_device(device), _program())


class RecordedRun(ActiveRun):
    """A run of the user's own loop, from its start to its record; made by `record`."""

    exists = False
    """Whether the run was recorded before, so that there is nothing to do."""

    def __init__(self, directory: Directory, spec: RunSpec[dict[str, Any]], device: str, program: str | None) -> None:
        """Starts the run: makes its working directory and starts its heartbeat."""
        root = directory.root
        self._root, self._spec = root, spec
        threads = import_torch().get_num_threads()
        self._origin = {**provenance(device, threads), "log": list(directory.log.heads), "program": program}
        self._started = time.perf_counter()
        self._ended = False
        self._heart = Heartbeat(root, Stack((spec,), (True,), 0), Follower())
        self._working = root / f"{spec.directory}{PARTIAL}"
        make_directory(self._working, root)
        identity = {"run": spec.id, "program": program}
        super().__init__(spec.arm, spec.seed, spec.config, device, self._heart, self._working, identity)
        self._heart.__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self._fail(error)

    def steps(self, over: Any) -> Iterator[Any]:
        """Yields as `ActiveRun.steps` does; `kymograph watch` shows the number of steps if it is known."""
        count = over if isinstance(over, int) else len(over) if isinstance(over, Sized) else 0
        self._heart.expect(self.step + count if count else 0)
        return super().steps(over)

    def finish(self) -> None:
        """Writes the record; for notebooks, where there is no ``with`` block. Nothing can be logged afterwards."""
        if self._ended:
            raise KymographError("the run has already ended")
        try:
            series = self.end()
            result = RunResult(series, summary_of(dict(self.summary), "run.summary"), notes=tuple(self.notes))
            packed = pack_record(self._spec, result, self._origin)
        except BaseException as error:
            self._fail(error)
            raise
        self._stop()
        store_record(self._root, self._spec, packed, time.perf_counter() - self._started)
        shutil.rmtree(self._working, ignore_errors=True)

    def _fail(self, error: BaseException) -> None:
        """Stores why the run failed; an interrupted run is not stored, and so counts as missing."""
        if self._ended:
            return
        self.close()
        self._stop()
        if isinstance(error, Exception):
            record_failure(self._root, self._spec, error, self._origin)

    def _stop(self) -> None:
        self._ended = True
        self._heart.__exit__(None, None, None)


class ExistingRun(ActiveRun):
    """A run that is already recorded: it has no steps, and nothing logged to it is kept; see ``if_exists``."""

    exists = True

    def __init__(self, spec: RunSpec[dict[str, Any]], device: str) -> None:
        super().__init__(spec.arm, spec.seed, spec.config, device, Follower(), None, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def steps(self, over: Any) -> Iterator[Any]:
        """Yields nothing."""
        return iter(())

    def finish(self) -> None:
        """Leaves the record as it is."""


_DIRECTORIES: dict[Path, Directory] = {}
_TERMS: dict[tuple[Path, str], tuple[int, Terms | None]] = {}


def _directory(root: Path) -> Directory:
    """Returns the directory of runs that this process records to; what is new in its log is read, and no more.

    So the ten-thousandth run of a process costs as much as its first.
    """
    directory = _DIRECTORIES.setdefault(real_path(root), Directory(root))
    directory.log.refresh()
    return directory


def _note_other_seed(directory: Directory, study: str, seed: int) -> None:
    """Prints a note, once per process and directory, if the experiment's claims are registered for other seeds."""
    experiment = (real_path(directory.root), study)
    if experiment in _NOTED:
        return
    # Runs of this process follow every registration that it has read, so only a new one can change what is binding.
    count = len(directory.log.of_kind(REGISTRATION))
    if _TERMS.get(experiment, (-1, None))[0] != count:
        _TERMS[experiment] = count, binding_terms(directory.log, study)
    terms = _TERMS[experiment][1]
    if terms is not None and seed not in terms.seeds:
        _NOTED.add(experiment)
        listed = ", ".join(map(str, terms.seeds))
        print(
            f"note: seed {seed} decides nothing: the claims about {study} are registered for {listed}, and runs at "
            "other seeds do not count (this note is shown once)",
            file=sys.stderr,
        )


def flat_settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as one flat dictionary, ``{"optimizer": {"lr": 1}}`` as ``{"optimizer.lr": 1}``.

    >>> flat_settings({"optimizer": {"name": "sgd", "lr": 0.1}, "sizes": (8, 8)})
    {'optimizer.name': 'sgd', 'optimizer.lr': 0.1, 'sizes': [8, 8]}
    """
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if not isinstance(name, str) or not name:
            raise KymographError(f"the name of a setting must be a string, not {name!r}")
        full_name = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{full_name}.")
        elif isinstance(value, list | tuple):
            if not all(isinstance(item, _SCALARS) for item in value):
                raise KymographError(f"the setting {full_name} cannot be stored; its items must be strings or numbers")
            flat[full_name] = list(value)
        elif isinstance(value, _SCALARS):
            if isinstance(value, float) and value - value != 0:
                raise KymographError(f"the setting {full_name} is {value}; settings must be finite")
            flat[full_name] = value
        else:
            raise KymographError(
                f"the setting {full_name} is a {type(value).__name__}, which cannot be stored; settings are strings, "
                "numbers, booleans, None and lists of these"
            )
    return flat


def _declare(
    directory: Directory,
    study: str,
    arm: str,
    settings: Mapping[str, Any],
    question: str,
    headlines: Mapping[str, str],
) -> None:
    """Adds the arm to the experiment's declaration; all its settings count as treatment."""
    before = directory.declaration(study) or Declaration(study, version=1)
    arms = list(before.arms)
    if arm not in [declared.name for declared in arms]:
        arms.append(Arm(arm, treatment=dict(settings), default=True))
    directory.declare(
        Declaration(
            study,
            question or before.question,
            before.version,
            arms=tuple(arms),
            headlines={**before.headlines, **headlines},
            time=before.time,
        ),
    )


def _program() -> str | None:
    """Returns the hash of the main program and the local modules it imports; None in a notebook."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    return source_hash(source_files(Path(file)))
