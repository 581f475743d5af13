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

import contextlib
import functools
import gc
import hashlib
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from kymograph._claims.design import Terms
from kymograph._claims.registration import REGISTRATION, binding_terms
from kymograph._errors import KymographError, first_line
from kymograph._experiments.active_run import ActiveRun
from kymograph._io.documents import parse_json
from kymograph._io.files import real_path
from kymograph._io.processes import Process
from kymograph._io.writing import living_owner, make_directory, one_at_a_time
from kymograph._probes.distributed import Ranks, ranks_here
from kymograph._runs.declaration import Arm, Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.provenance import provenance
from kymograph._runs.record import RunResult, is_finished, pack_record, read_config, read_status, store_record
from kymograph._runs.spec import RunSpec
from kymograph._runs.steps import Step
from kymograph._runs.storable import check_text, stored_scalar
from kymograph._runs.tuned import SUFFIX, tuned_study
from kymograph._streams import MAX_SEED
from kymograph._studies.loading import STUDIES
from kymograph._sweep.code_identity import cells_hash, source_files, source_hash
from kymograph._sweep.code_loading import stop_while_loading
from kymograph._sweep.compute import choose_device, import_torch, record_failure
from kymograph._sweep.heartbeat import PARTIAL, Heartbeat
from kymograph._sweep.notebook_code import executed_cells
from kymograph._sweep.orders import Stack
from kymograph._sweep.progress import Follower

_ALLOWED = "settings are strings, numbers, Booleans, None and lists of these"
_NOTED: set[tuple[Path, str]] = set()  # the experiments about whose seeds a note was printed by this process
_NOTED_CODE: set[tuple[Path, str]] = set()  # the same, for notes about runs of other code
_WAIT = 0.5  # seconds between two looks at the lock of a process that cannot be queried


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
) -> RecordedRun | FollowingRun | ExistingRun:
    """Starts recording a run of your own training loop; use it in a ``with`` block, or call `finish` at the end.

    >>> for seed in ky.fixed_seeds(2):
    ...     with ky.record("mine", arm="adam", seed=seed, config={"lr": 1e-3}, if_exists="skip") as run:
    ...         for step in run.steps(5):
    ...             run.log(loss=1 / (step + 1))
    ...         run.summary["accuracy"] = 0.9
    >>> ky.Store.open("runs").select("mine").summary("accuracy").values.tolist()
    [[0.9, 0.9]]

    A run can be recorded by one process at a time, and once at a time in it. Where several processes train one network,
    all of them call it at the same point of the program, with the same arguments: rank 0 records, and the others follow
    (`FollowingRun`). What they log is not kept.

    Args:
        study: the name of the experiment; its runs are stored in ``OUT/STUDY``.
        arm: the condition.
        seed: the replication; runs of different arms are paired by it.
        config: the settings; nested ones are flattened (``optimizer.lr``).
        out: the directory that holds the runs.
        if_exists: what to do if the run is already recorded: raise an ``error``; ``skip`` it, which keeps the record,
            sets `exists` and makes ``run.steps`` empty; or ``replace`` it, which is logged and shown with verdicts.
            If other code than the present program recorded a skipped run, a note says so, once per process.
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
    settings = flat_settings(config or {})
    texts = [("study", study), ("arm", arm), ("question", question)]
    texts += [("name of a headline", key) for key in headlines or {}]
    texts += [(f"label of the headline {key!r}", label) for key, label in (headlines or {}).items()]
    for what, text in texts:
        if not isinstance(text, str):
            raise KymographError(f"the {what} is {text!r}; it must be a string")
        check_text(text, f"the {what}")
    code = _running_code()
    chosen = choose_device(device)

    def start(ranks: Ranks | None = None) -> RecordedRun | ExistingRun:
        arguments = (study, arm, seed, settings, if_exists, question, headlines or {})
        return _start(_directory(Path(out)), *arguments, code, chosen, ranks)

    ranks = ranks_here()
    if ranks is None:
        return start()
    return _record_together(ranks, start, (study, arm, seed, settings), Path(out), code, chosen)


def _start(
    directory: Directory,
    study: str,
    arm: str,
    seed: int,
    settings: dict[str, Any],
    if_exists: str,
    question: str,
    headlines: Mapping[str, str],
    code: Mapping[str, str | None],
    chosen: str,
    ranks: Ranks | None,
) -> RecordedRun | ExistingRun:
    """Starts the recording, in the process that writes it."""
    root = directory.root
    make_directory(root)
    declared = directory.declaration(study)
    spec = RunSpec(study, arm, seed, settings, 1 if declared is None else declared.version)
    if is_finished(root, spec) and not _to_be_replaced(root, spec, if_exists, code):
        return ExistingRun(spec, chosen)
    _note_other_seed(directory, study, seed)
    _wait_for_a_sign_of_life(RecordingLock.path_of(root, spec))
    with contextlib.ExitStack() as undo:
        with one_at_a_time(root):
            lock = RecordingLock(root.absolute(), spec)
            undo.callback(lock.release)
            directory.log.refresh()
            if is_finished(root, spec):  # perhaps since it was looked at
                if not _to_be_replaced(root, spec, if_exists, code):
                    return ExistingRun(spec, chosen)
                directory.replacing(spec)
            _declare(directory, study, arm, settings, question, headlines)
            directory.plan([spec])
        run = RecordedRun(directory, spec, chosen, lock, code, ranks)
        undo.pop_all()
    return run


def _record_together(
    ranks: Ranks,
    start: Callable[[Ranks], RecordedRun | ExistingRun],
    named: tuple[str, str, int, dict[str, Any]],
    out: Path,
    code: Mapping[str, str | None],
    device: str,
) -> RecordedRun | FollowingRun | ExistingRun:
    """Starts the recording on rank 0, and lets the other ranks follow; an error of any rank is raised on all."""
    run, mine = None, dict[str, Any](run=list(named))
    if ranks.rank == 0:
        try:
            run = start(ranks)
            mine |= {"exists": run.exists, "version": run.version}
        except KymographError as error:
            mine["error"] = str(error)
    told = [parse_json(text) for _, text in ranks.exchange("record", json.dumps(mine).encode())]
    study, arm, seed, settings = named
    problem = told[0].get("error", "")
    for rank, theirs in enumerate(told):
        if theirs["run"] != told[0]["run"]:
            problem = f"rank {rank} records another run than rank 0; give ky.record the same arguments on every rank"
    if problem:
        if run is not None:
            run.close()
        raise KymographError(problem)
    if run is not None:
        if not run.exists:
            print(f"note: rank 0 of {ranks.size} records {study}, {arm}, seed {seed}", file=sys.stderr)
        return run
    spec = RunSpec(study, arm, seed, settings, told[0]["version"])
    if told[0]["exists"]:
        return ExistingRun(spec, device, first_rank=False)
    return FollowingRun(out.absolute(), spec, device, code, ranks)


def _to_be_replaced(root: Path, spec: RunSpec[Any], if_exists: str, code: Mapping[str, str | None]) -> bool:
    """Returns whether a finished run is to be recorded again; raises if ``if_exists`` does not say."""
    if if_exists == "error":
        raise KymographError(
            f"{_in_words(spec)} is already recorded in {root}; skip it with if_exists='skip', or record it again with "
            "if_exists='replace'"
        )
    if if_exists == "skip":
        _note_other_code(root, spec, code["program"])
    return if_exists == "replace"


def _in_words(spec: RunSpec[Any]) -> str:
    return f"{spec.study}, {spec.arm}, seed {spec.seed}"


class RecordingLock:
    """The lock of a run that is being recorded: ``STUDY/.RUN.recording``, a symbolic link that names the process.

    Two recordings of one run would overwrite each other's resume state. The lock of a process that is gone is taken
    over, and so is that of a recording in this process whose `RecordedRun` nobody refers to any more.
    """

    _of_this_process: weakref.WeakValueDictionary[Path, RecordingLock] = weakref.WeakValueDictionary()

    def __init__(self, root: Path, spec: RunSpec[Any]) -> None:
        """Takes the lock, while this process holds that of ``root``; raises if the run is being recorded."""
        self.path, self._run = self.path_of(root, spec), _in_words(spec)
        key = real_path(self.path.parent) / self.path.name
        owner = living_owner(self.path)
        if owner == Process.this():
            gc.collect()
            if key in self._of_this_process:
                raise KymographError(
                    f"{self._run} is already being recorded by process {owner.pid} (on {owner.host}), this one; end "
                    "the earlier recording with run.finish(), or give it up with run.close(), and try again"
                )
        elif owner is not None:
            raise KymographError(
                f"{self._run} is already being recorded by process {owner.pid} (on {owner.host}); wait until it has "
                "ended, or end it, and try again"
            )
        make_directory(self.path.parent, root)
        self._of_this_process[key] = self
        self._linked = False
        with contextlib.suppress(OSError):  # no symbolic links on this file system: go on without a lock
            self.path.unlink(missing_ok=True)
            os.symlink(Process.this().mark, self.path)
            self._linked = True

    @staticmethod
    def path_of(root: Path, spec: RunSpec[Any]) -> Path:
        """Returns the path of a run's lock."""
        directory = root / spec.directory
        return directory.with_name(f".{directory.name}.recording")

    def check(self) -> None:
        """Raises if another process has taken the lock over."""
        if self.lost:
            owner = self._owner()
            by = "another process" if owner is None else f"process {owner.pid} (on {owner.host})"
            raise KymographError(
                f"{self._run} has been taken over by {by}, because this process gave no sign of life for a minute; "
                "leave the run to that process, or end it and start again"
            )

    @property
    def lost(self) -> bool:
        """Whether another process has taken the lock over; it may have ended since, and removed it."""
        return self._linked and self._owner() != Process.this()

    def release(self) -> None:
        """Gives the lock back."""
        if not self.lost:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        for key in [key for key, lock in self._of_this_process.items() if lock is self]:
            del self._of_this_process[key]

    def _owner(self) -> Process | None:
        try:
            return Process.of_mark(os.readlink(self.path))
        except OSError:
            return None


def _wait_for_a_sign_of_life(lock: Path) -> None:
    """Waits, if a process that cannot be queried holds a lock, until it renews the lock or counts as gone.

    It may have been ended just now, as by a cluster that moves its job to another host.
    """
    with contextlib.suppress(OSError):
        first, looks = lock.lstat().st_mtime_ns, 0
        while (owner := living_owner(lock)) is not None and not owner.can_be_queried:
            if lock.lstat().st_mtime_ns != first:
                return
            if looks == 1:
                print(f"note: waiting for a sign of life from process {owner.pid} (on {owner.host})", file=sys.stderr)
            looks += 1
            time.sleep(_WAIT)


class RecordedRun(ActiveRun):
    """A run of the user's own loop, from its start to its record; made by `record`.

    >>> run = ky.record("mine", arm="sgd", seed=42)  # in a notebook, without a ``with`` block
    >>> run.log(loss=0.5)
    >>> run.summary(final_loss=0.5)
    >>> run.finish()
    >>> run.exists
    False
    """

    exists = False
    """Whether the run was recorded before, so that there is nothing to do."""

    def __init__(
        self,
        directory: Directory,
        spec: RunSpec[dict[str, Any]],
        device: str,
        lock: RecordingLock,
        code: Mapping[str, str | None],
        ranks: Ranks | None = None,
    ) -> None:
        """Starts the run: makes its working directory and starts its heartbeat."""
        root = directory.root.absolute()  # the loop may change the working directory
        self._root, self._spec, self._lock = root, spec, lock
        threads = import_torch().get_num_threads()
        self._origin = {**provenance(device, threads), "log": list(directory.log.heads), "program": code["program"]}
        self._started = time.perf_counter()
        self._ended = False
        self._heart = Heartbeat(root, Stack((spec,), (True,), 0), Follower(), lock.path)
        self._working = root / f"{spec.directory}{PARTIAL}"
        make_directory(self._working, root)
        identity = {"run": spec.id, **code}
        super().__init__(spec.arm, spec.seed, spec.config, device, self._heart, self._working, identity, ranks)
        self.version = spec.version
        self._termination = None if ranks is None else _TerminationAsExit()
        self._heart.__enter__()
        # A run that nobody can end any more ends by itself, and the process may record it again.
        self._at_loss = weakref.finalize(self, _let_go, self._heart, lock, os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            reason = self._fail(error)
            if reason is not error:
                raise reason from error
        elif not self._ended:
            self.finish()

    def steps(self, over: Any) -> Iterator[Any]:
        """Yields as `ActiveRun.steps` does; `kymograph watch` shows the number of steps if it is known."""
        count = over if isinstance(over, int) else len(over) if isinstance(over, Sized) else 0
        self.expect_steps(self.step + count if count and not self._accumulation else 0)
        return super().steps(over)

    def expect_steps(self, total: int) -> None:
        """Lets `kymograph watch` show how many steps the run will have; 0 if that is not known."""
        self._heart.expect(total)

    def finish(self) -> None:
        """Writes the record; for notebooks, where there is no ``with`` block. Nothing can be logged afterwards."""
        if self._ended:
            raise KymographError("the run has already ended")
        try:
            self._lock.check()
            series = self.end()
            with self._telling_others():
                result = RunResult(series, dict(self.summary), notes=tuple(self.notes), processes=self.processes)
                packed = pack_record(self._spec, result, self._origin)
        except BaseException as error:
            self._fail(error)
            raise
        with self._ending(), self._telling_others():
            self._lock.check()  # again: packing a large record takes time
            store_record(self._root, self._spec, packed, time.perf_counter() - self._started)
        shutil.rmtree(self._working, ignore_errors=True)
        if self._ranks is not None:
            self._ranks.exchange("record")

    @contextlib.contextmanager
    def _telling_others(self) -> Iterator[None]:
        """Tells the other ranks, which wait for the record, why a block failed."""
        try:
            yield
        except Exception as error:
            if self._ranks is not None:
                self._ranks.exchange("record", first_line(error, type(error).__name__).encode())
            raise

    def close(self) -> None:
        """Gives the recording up: nothing is stored, and the run is missing until it is recorded again.

        What was saved stays: the next recording resumes from it.
        """
        super().close()
        if not self._ended:
            with self._ending():
                pass

    def _fail(self, error: BaseException) -> BaseException:
        """Stores why the run failed, and returns it; an interrupted run is not stored, and so counts as missing.

        It is ``error``, unless another rank has failed first.
        """
        if self._ended:
            return error
        super().close()
        if self._termination is not None:
            self._termination.ignore()  # a launcher ends all ranks when one is gone; first say which
        with self._ending():
            if self._ranks is not None:
                error = self._ranks.cause(error)
            if isinstance(error, Exception) and not self._lock.lost:
                record_failure(self._root, self._spec, error, self._origin)
        return error

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Ends the heartbeat before a block, and lets others record the run after it."""
        self._ended = True
        self._at_loss.detach()
        try:
            self._heart.__exit__(None, None, None)
            yield
        finally:
            self._lock.release()
            if self._termination is not None:
                self._termination.restore()

    def _save(self, path: Path) -> None:
        self._lock.check()
        super()._save(path)


def _let_go(heart: Heartbeat, lock: RecordingLock, process: int) -> None:
    """Ends the heartbeat and the lock of a run that nobody refers to any more; not in a fork, which has neither."""
    if process == os.getpid():
        heart.__exit__(None, None, None)
        lock.release()


class FollowingRun(ActiveRun):
    """The run of a rank other than 0: it trains and measures its part, and rank 0 records; made by `record`."""

    exists = False

    def __init__(
        self, root: Path, spec: RunSpec[dict[str, Any]], device: str, code: Mapping[str, str | None], ranks: Ranks
    ) -> None:
        working = root / f"{spec.directory}{PARTIAL}"
        identity = {"run": spec.id, **code}
        super().__init__(spec.arm, spec.seed, spec.config, device, Follower(), working, identity, ranks)
        self._followed, self._ended, self._termination = ranks, False, _TerminationAsExit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._followed.tell_failure(error)
            self.close()
        elif not self._ended:
            self.finish()

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: Step | None = None, **named: Any) -> None:
        """Leaves logging to rank 0."""

    def expect_steps(self, total: int) -> None:
        """Leaves progress to rank 0."""

    def finish(self) -> None:
        """Combines the last readings, and waits until rank 0 has written the record; raises if it cannot."""
        if self._ended:
            raise KymographError("the run has already ended")
        try:
            self.end()
            _, problem = self._followed.exchange("record")[0]
        finally:
            self.close()
        if problem:
            raise KymographError(f"rank 0 failed: {problem.decode()}")

    def close(self) -> None:
        """Gives the run up on this rank."""
        super().close()
        self._ended = True
        self._termination.restore()


class _TerminationAsExit:
    """Turns SIGTERM into an exception for the time of a run, so that its end can be recorded; leaves others' handlers.

    A launcher such as torchrun terminates all ranks when one has died.
    """

    def __init__(self) -> None:
        here = threading.current_thread() is threading.main_thread()
        self._ours = here and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._ours:
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))

    def ignore(self) -> None:
        """Ignores the signal from now on."""
        if self._ours:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def restore(self) -> None:
        """Lets the signal end the process again."""
        if self._ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class ExistingRun(ActiveRun):
    """A run that is already recorded: it has no steps, and nothing logged to it is kept; see ``if_exists``."""

    exists = True

    def __init__(self, spec: RunSpec[dict[str, Any]], device: str, first_rank: bool = True) -> None:
        super().__init__(spec.arm, spec.seed, spec.config, device, Follower(), None, {})
        self.version, self._spec, self._first_rank = spec.version, spec, first_rank

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def steps(self, over: Any) -> Iterator[Any]:
        """Yields nothing."""
        return iter(())

    def finish(self) -> None:
        """Leaves the record as it is."""

    def announce(self) -> None:
        """Prints that the training of a framework, which cannot be skipped, is not recorded; on rank 0 only."""
        if self._first_rank:
            print(f"note: {_in_words(self._spec)} is already recorded; this training is not", file=sys.stderr)

    def _print(self, note: str) -> None:
        """Prints nothing: a run that does not train has nothing to measure."""


_DIRECTORIES: dict[tuple[Path, Path], Directory] = {}
_TERMS: dict[tuple[Path, str], tuple[int, Terms | None]] = {}


def _directory(root: Path) -> Directory:
    """Returns the directory of runs that this process records to; what is new in its log is read, and no more.

    So the ten-thousandth run of a process costs as much as its first.
    """
    key = (real_path(root), root)  # a relative path leads elsewhere once the program has changed its directory
    directory = _DIRECTORIES.setdefault(key, Directory(root))
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

    Raises if a setting could not be read back, would be lost because it is empty, or has the name of another one.

    >>> flat_settings({"optimizer": {"name": "sgd", "lr": 0.1}, "sizes": (8, 8)})
    {'optimizer.name': 'sgd', 'optimizer.lr': 0.1, 'sizes': [8, 8]}
    """
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if not isinstance(name, str) or not name:
            raise KymographError(f"the name of a setting must be a string, not {name!r}")
        check_text(name, "the name of a setting")
        full_name = f"{prefix}{name}"
        what = f"the setting {full_name if full_name.isprintable() else repr(full_name)}"
        if isinstance(value, Mapping):
            if not value:
                raise KymographError(f"{what} is an empty dictionary, which would be lost; drop it")
            below = flat_settings(value, f"{full_name}.")
        else:
            below = {full_name: _stored_setting(value, what)}
        if twice := flat.keys() & below.keys():
            raise KymographError(f"two settings are called {min(twice)!r}, one of them nested; rename one")
        flat |= below
    return flat


def _stored_setting(value: Any, what: str) -> Any:
    items = value if isinstance(value, list | tuple) else [value]
    stored = [stored_scalar(item, what, _ALLOWED) for item in items]
    for item in stored:
        if isinstance(item, float) and not math.isfinite(item):
            raise KymographError(f"{what} is {item}; settings must be finite")
    return stored if isinstance(value, list | tuple) else stored[0]


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


def _note_other_code(root: Path, spec: RunSpec[Any], program: str | None) -> None:
    """Prints a note, once per process and experiment, if a run that is skipped was recorded by another program."""
    experiment = (real_path(root), spec.study)
    if program is None or experiment in _NOTED_CODE:
        return
    with contextlib.suppress(KymographError):  # reading the run reports what is wrong with it
        directory = root / spec.directory
        recorded_by = read_config(directory, read_status(directory))["provenance"].get("program")
        if isinstance(recorded_by, str) and recorded_by != program:
            _NOTED_CODE.add(experiment)
            print(
                f"note: {_in_words(spec)} is skipped, but other code than this program recorded it; record it again "
                "with if_exists='replace' if the difference matters (this note is shown once)",
                file=sys.stderr,
            )


def _running_code() -> dict[str, str | None]:
    """Returns the hashes of the code that is running and of its command line; None where there is no such thing.

    The code is the main program with the local modules that it imports, or what the running cell of a notebook depends
    on. The command line of a notebook is that of its kernel, which changes with every start and says nothing.
    """
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None or not Path(file).is_file() or Path(file).suffix == ".ipynb":
        cells = executed_cells()
        if cells:
            return {"program": cells_hash(cells), "command line": None}
        file = None
    # Only hashes: a command line may contain a password, and a state may be copied elsewhere.
    words = hashlib.sha256(json.dumps(sys.argv[1:]).encode()).hexdigest()[:16]
    return {"program": None if file is None else _program(Path(file)), "command line": words}


@functools.cache
def _program(file: Path) -> str:
    """Returns the hash of a main program and the local modules that it imports, as they were when first asked for.

    Later edits do not reach a program that is running.
    """
    return source_hash(source_files(file))
