"""Lightning's training, recorded: a callback that finds model, optimizer, step, seed and logged metrics."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor

from kymograph._experiments.framework_run import RecordingCallback

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as missing:
    try:
        from pytorch_lightning import Callback
    except ModuleNotFoundError:
        raise missing from None


class KymographCallback(RecordingCallback, Callback):  # type: ignore[misc]
    """Records every `fit` of a Lightning `Trainer` as a run.

        from kymograph.lightning import KymographCallback

        lightning.seed_everything(3)
        trainer = lightning.Trainer(max_steps=1000, callbacks=[KymographCallback("mine", arm="adam", every=10)])
        trainer.fit(module, loader)

    A step is one optimizer step; the activations of all its batches are combined. Metrics that the module logs are
    series: those of training at their step, averaged over its batches, and those of validation after as many updates.
    Sanity checks, `validate` and `test` are not part of a step. The record so far is in Lightning's checkpoints: a
    training that resumes from one continues it.

    The arguments are those of `kymograph.record` and `run.watch`. Unless you give one, the seed is that of
    `seed_everything`; the settings are the module's hyperparameters, the trainer's clipping, accumulation and
    precision, and yours.
    """

    _fitting = False
    _trainer: Any = None
    _step: int | None = None
    _last_step: int | None = None
    _epoch_is_over = False
    _metrics: list[dict[str, Any]]
    _seen: dict[str, Any]

    @property
    def state_key(self) -> str:
        """The name of the record in a checkpoint."""
        return str(self._generate_state_key(study=self._record.study, arm=self._record.arm))

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Notes whether a checkpoint is loaded to train on."""
        self._fitting = stage == "fit"

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps the record in a checkpoint for the training that resumes from it."""
        if self._fitting:
            self._record.checkpoint = state_dict

    def state_dict(self) -> dict[str, Any]:
        """Returns the record so far."""
        self._end_step()
        self._log_end_of_epoch()
        return self._record.state_dict(0 if self._trainer is None else self._trainer.global_step)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Starts the run."""
        seed = os.environ.get("PL_GLOBAL_SEED", "")
        steps = trainer.estimated_stepping_batches
        self._trainer, self._step, self._last_step, self._epoch_is_over = trainer, None, None, False
        self._metrics, self._seen = [], dict(trainer.logged_metrics)
        self._record.start(
            pl_module,
            trainer.optimizers,
            seed=int(seed) if seed.isdecimal() else None,
            config=_hyperparameters(trainer, pl_module),
            step=trainer.global_step,
            steps=int(steps) if steps < float("inf") else 0,
            scaler=getattr(trainer.precision_plugin, "scaler", None),
        )

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Records what the module has logged at the end of the last epoch, after our own hook."""
        self._log_end_of_epoch()
        self._epoch_is_over = False

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Begins a step, unless gradients are being accumulated."""
        if self._step is None and self._record.run is not None:
            self._step = int(trainer.global_step)
            self._record.begin_step(self._step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Ends the step, if the optimizer has made it."""
        if self._step is not None:
            self._metrics.append(self._fresh_metrics(trainer))
            self._end_step()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Records what was logged about the epoch, at its last step."""
        self._epoch_is_over = True
        self._log_end_of_epoch()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Keeps the validation out of the step, which may be accumulating gradients."""
        if self._record.run is not None:
            self._record.run.suspend_probes()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Records what was logged in validation, after as many updates."""
        if self._record.run is not None:
            self._record.run.resume_probes()
        self._record.log(self._fresh_metrics(trainer), step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Writes the record."""
        self._log_end_of_epoch()
        self._record.finish(trainer.global_step)
        self._trainer = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Records that the training failed."""
        self._record.fail(exception)
        self._trainer = None

    def _end_step(self) -> None:
        """Ends the current step, if the optimizer has made it; another callback may save before ours is called."""
        if self._step is None or self._trainer is None or self._trainer.global_step == self._step:
            return
        names = dict.fromkeys(name for metrics in self._metrics for name in metrics)
        values = {name: [metrics[name] for metrics in self._metrics if name in metrics] for name in names}
        self._record.log({name: sum(each) / len(each) for name, each in values.items()}, step=self._step)
        self._record.end_step()
        self._metrics, self._last_step, self._step = [], self._step, None

    def _log_end_of_epoch(self) -> None:
        """Records what was logged since the last step of an epoch that is over, at that step."""
        if self._epoch_is_over and self._trainer is not None and self._last_step is not None:
            self._record.log(self._fresh_metrics(self._trainer), step=self._last_step)

    def _fresh_metrics(self, trainer: Any) -> dict[str, Any]:
        """Returns what was logged since the last call: Lightning keeps old values in the same dictionary.

        A value is old if it has the memory of the one that we hold, which Lightning hands out in new tensors.
        """
        if self._record.run is None:
            return {}
        before, self._seen = self._seen, dict(trainer.logged_metrics)
        return {
            name: value
            for name, value in self._seen.items()
            if name not in before or _address(value) != _address(before[name])
        }


def _address(value: Any) -> int:
    return value.data_ptr() if isinstance(value, Tensor) else id(value)


def _hyperparameters(trainer: Any, module: Any) -> dict[str, Any]:
    """Returns the settings that Lightning knows; the module's hyperparameters keep their names."""
    return {
        **dict(getattr(trainer.datamodule, "hparams", {})),
        **dict(module.hparams),
        "trainer": {
            "accumulate_grad_batches": trainer.accumulate_grad_batches,
            "gradient_clip_val": trainer.gradient_clip_val,
            "gradient_clip_algorithm": getattr(trainer, "gradient_clip_algorithm", None),
            "precision": str(trainer.precision),
        },
    }
