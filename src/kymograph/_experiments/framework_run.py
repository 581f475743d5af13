"""A run whose loop is a framework's: started, stepped, saved and ended by the framework's callbacks."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from kymograph._errors import KymographError
from kymograph._experiments.active_run import OtherProbe
from kymograph._experiments.recorded_loop import ExistingRun, FollowingRun, RecordedRun, flat_settings, record


class FrameworkRun:
    """The run that a callback records, from the first training step to its record.

    The framework's checkpoint is the source of truth: a training that resumes from one goes on
    with the record in it (`checkpoint`).
    """

    def __init__(
        self,
        study: str,
        arm: str,
        seed: int | None,
        config: Mapping[str, Any],
        watch: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self.study, self.arm, self._seed, self._config = study, arm, seed, dict(config)
        self._watch, self._options = dict(watch), options
        self.run: RecordedRun | FollowingRun | None = None
        self.checkpoint: Mapping[str, Any] | None = None
        """The record that the next training may resume from: that in a checkpoint, or that of the last training."""

    def start(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        *,
        seed: int | None,
        config: Mapping[Any, Any],
        step: int,
        steps: int,
        scaler: Any = None,
    ) -> None:
        """Starts recording a training that begins at ``step`` of ``steps``; 0 steps: their number is not known."""
        self.close()  # the framework has begun again, e.g. with a smaller batch
        chosen = seed if self._seed is None else self._seed
        if chosen is None:
            raise KymographError("the training has no seed; give KymographCallback seed=..., or call seed_everything")
        settings, left_out = storable_settings(config)
        device = next((parameter.device.type for parameter in model.parameters()), "cpu")
        run = record(
            self.study,
            arm=self.arm,
            seed=chosen,
            config={**settings, **self._config},
            device=device if device in ("cuda", "mps") else "cpu",
            **self._options,
        )
        if isinstance(run, ExistingRun):
            run.announce()
            return
        self.run = run
        try:
            run.watch(model, optimizer, **({} if scaler is None else {"scaler": scaler}), **self._watch)
            self._go_on(run, step)
        except BaseException as error:
            self.fail(error)
            raise
        if left_out:
            run.notes.append(f"not stored as settings, because a record cannot hold them: {', '.join(left_out)}")
        run.expect_steps(max(steps, 0))

    def _go_on(self, run: RecordedRun | FollowingRun, step: int) -> None:
        """Goes on with the record in the checkpoint, if the training has been resumed at ``step``."""
        saved, self.checkpoint = self.checkpoint, None
        if not step:
            return
        reached = 0
        if saved and saved["step"] <= step and self._is_ours(run, saved):
            try:
                run.load_state_dict(saved)
            except OtherProbe:
                run.notes.append("the record in the checkpoint is not continued: it has other quantities or layers")
            else:
                reached = saved.get("next_step", run.step)  # records of earlier versions do not have it
        if reached != step:
            run.notes.append(f"the training began at step {step}; steps {reached} to {step - 1} are not in the record")

    def _is_ours(self, run: RecordedRun | FollowingRun, saved: Mapping[str, Any]) -> bool:
        """Returns whether a record is of this study and arm, and notes it if not."""
        study, arm = saved.get("study", self.study), saved.get("arm", self.arm)
        if (study, arm) == (self.study, self.arm):
            return True
        run.notes.append(f"the record in the checkpoint is not continued: it is that of {study}, {arm}")
        return False

    def begin_step(self, step: int) -> None:
        """Begins a training step, counted in optimizer steps."""
        if self.run is not None:
            self.run.begin_step(step)

    def end_step(self) -> None:
        """Ends the training step."""
        if self.run is not None:
            self.run.end_step()

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Records numbers that the framework has logged."""
        if self.run is not None and values:
            self.run.log(values, step=step)

    def state_dict(self, next_step: int) -> dict[str, Any]:
        """Returns the record so far, for the framework's checkpoint; that of the last training after its end.

        ``next_step`` is the framework's counter, which may advance by more than one in a step.
        """
        if self.run is None:
            return dict(self.checkpoint or {})
        return {**self.run.state_dict(), "study": self.study, "arm": self.arm, "next_step": next_step}

    def finish(self, next_step: int) -> None:
        """Writes the record."""
        if self.run is not None:
            self.checkpoint = self.state_dict(next_step)
            run, self.run = self.run, None
            run.finish()

    def fail(self, error: BaseException) -> None:
        """Ends the run as `kymograph.record` does when its block is left by an exception."""
        if self.run is not None:
            run, self.run = self.run, None
            run.__exit__(type(error), error, error.__traceback__)

    def close(self) -> None:
        """Gives up a run that has not ended."""
        if self.run is not None:
            run, self.run = self.run, None
            run.close()


class RecordingCallback:
    """What the callbacks of all frameworks have in common: their arguments, and the run that they record."""

    def __init__(
        self,
        study: str,
        *,
        arm: str,
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
        out: str | Path = "runs",
        if_exists: Literal["error", "skip", "replace"] = "error",
        question: str = "",
        headlines: Mapping[str, str] | None = None,
        **watch: Any,
    ) -> None:
        """Prepares to record.

        Args:
            study: the name of the experiment, as in `kymograph.record`; so are the next ones.
            arm: the condition.
            seed: the replication; default: the framework's seed.
            config: settings to add to those that the framework knows.
            out: the directory that holds the runs.
            if_exists: what to do if the run is already recorded; with ``skip`` it is trained and not recorded.
            question: what the experiment asks.
            headlines: the summary numbers to show in tables, with their labels.
            **watch: the options of `run.watch`: ``level``, ``every``, ``layers``, ...
        """
        options = {"out": out, "if_exists": if_exists, "question": question, "headlines": headlines}
        self._record = FrameworkRun(study, arm, seed, config or {}, watch, **options)


def storable_settings(given: Mapping[Any, Any], prefix: str = "") -> tuple[dict[str, Any], list[str]]:
    """Returns a framework's hyperparameters as settings, and the names of those that a record cannot hold.

    >>> storable_settings({"lr": 0.1, "root": Path("data"), "limit": math.inf, "loss": torch.nn.MSELoss(), "net": {}})
    ({'lr': 0.1, 'root': 'data', 'limit': 'inf'}, ['loss'])
    """
    settings: dict[str, Any] = {}
    left_out: list[str] = []
    for key, value in given.items():
        name, plain = f"{prefix}{key}", _plain(value)
        if isinstance(plain, Mapping):
            below, without = storable_settings(plain, f"{name}.")
            settings |= below
            left_out += without
            continue
        try:
            settings |= flat_settings({name: plain})
        except KymographError:
            left_out.append(name)
    return settings, left_out


def _plain(value: Any) -> Any:
    """Returns a hyperparameter in the types of a setting, where there is one way to do that."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, Path | torch.dtype | torch.device) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value
