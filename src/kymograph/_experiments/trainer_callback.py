"""The training of transformers' `Trainer`, recorded: a callback that finds model, optimizer, step, seed and logs."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from kymograph._errors import KymographError
from kymograph._experiments.framework_run import RecordingCallback
from kymograph._io.files import MAX_TENSORS, is_file, read_bytes
from kymograph._io.tensors import tensor_header
from kymograph._io.writing import write_atomically
from kymograph._runs.spec import slug

EARLIER_FILE = "kymograph.safetensors"
"""The record so far, in a checkpoint's folder, as earlier versions named it for every study and arm."""
_SETTINGS = (
    "learning_rate", "lr_scheduler_type", "warmup_steps", "optim", "weight_decay", "max_grad_norm",
    "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps", "bf16", "fp16",
)  # fmt: skip
_SETTINGS_IF_CHANGED = (
    "adam_beta1", "adam_beta2", "adam_epsilon", "lr_scheduler_kwargs", "optim_args", "label_smoothing_factor",
    "neftune_noise_alpha", "train_sampling_strategy", "dataloader_drop_last", "activation_checkpointing",
    "torch_compile", "tf32", "full_determinism",
)  # fmt: skip
"""Arguments that the numbers depend on; all others are about files, logs, evaluation and processes."""
_TIMES = ("_runtime", "_per_second", "_time")
"""How the names of timings end: they are not results of the training."""


class KymographCallback(RecordingCallback, TrainerCallback):  # type: ignore[misc]
    """Records every `train` of a transformers `Trainer` as a run.

        from kymograph.hf import KymographCallback

        trainer = Trainer(model, arguments, train_dataset=data, callbacks=[KymographCallback("mine", arm="adam")])
        trainer.train()

    A step is one optimizer step; the activations of all its batches are combined. What the trainer logs is a series:
    that of training at the step, and that of an evaluation after as many updates. The record so far is a file in the
    trainer's checkpoints: a training that resumes from one continues it.

    The arguments are those of `kymograph.record` and `run.watch`. Unless you give one, the seed is that of the training
    arguments; the settings are those of them that the numbers depend on, and yours.
    """

    _in_step = False

    def resume_from(self, folder: str | None) -> None:
        """Reads the record in the checkpoint that the next training resumes from, if there is one."""
        names = () if folder is None else (_file(self._record.study, self._record.arm), EARLIER_FILE)
        path = next((Path(folder or "") / name for name in names if is_file(Path(folder or "") / name)), None)
        self._record.checkpoint = None if path is None else _read(path)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts the run."""
        self._in_step = False
        self._record.start(
            kwargs["model"],
            kwargs["optimizer"],
            seed=args.seed,
            config=_settings(args),
            step=state.global_step,
            steps=state.max_steps,
        )

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins a step."""
        self._record.begin_step(state.global_step)
        self._in_step = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the step."""
        self._record.end_step()
        self._in_step = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Records what the trainer logs: about the step, about an evaluation, or about the whole training."""
        numbers = {
            name: value
            for name, value in (logs or {}).items()
            if isinstance(value, int | float) and name != "epoch" and not name.endswith(_TIMES)
        }
        if self._record.run is None:
            return
        if "train_runtime" in (logs or {}):
            numbers.pop("train_loss", None)  # of a resumed training, the mean since it was resumed
            self._record.run.summary.update(numbers)
            return
        # An evaluation always logs its timing, under a prefix that the caller may choose.
        prefixes = tuple(name.removesuffix("runtime") for name in logs or {} if name.endswith("_runtime"))
        evaluation = {name: value for name, value in numbers.items() if name.startswith(("eval_", *prefixes))}
        training = {name: value for name, value in numbers.items() if name not in evaluation}
        self._record.log(evaluation, step=state.global_step)
        self._record.log(training, step=state.global_step - (not self._in_step))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the record so far into the checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self._record.run is None:
            return
        record = self._record.state_dict(state.global_step)  # on every rank: readings are combined
        if state.is_world_process_zero and folder.is_dir():
            _write(folder / _file(self._record.study, self._record.arm), record)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the record."""
        self._record.finish(state.global_step)

    def fail(self, error: BaseException) -> None:
        """Records that the training failed."""
        self._record.fail(error)


def _settings(args: Any) -> dict[str, Any]:
    defaults = {name: field.default for name, field in type(args).__dataclass_fields__.items()}
    changed = [
        name for name in _SETTINGS_IF_CHANGED if (getattr(args, name, None) or None) != (defaults.get(name) or None)
    ]
    return {name: getattr(args, name) for name in (*_SETTINGS, *changed) if hasattr(args, name)}


def _file(study: str, arm: str) -> str:
    """Returns the name of a record in a checkpoint's folder; the digest separates names that share a slug."""
    digest = hashlib.sha256(json.dumps([study, arm]).encode()).hexdigest()[:8]
    return f"kymograph-{slug(f'{study}/{arm}')[:100]}-{digest}.safetensors"


def _write(path: Path, state: Mapping[str, Any]) -> None:
    described = json.dumps({name: value for name, value in state.items() if name != "tensors"}, allow_nan=False)
    write_atomically(path, save(state["tensors"], metadata={"kymograph": described}))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_bytes(path, MAX_TENSORS)
        described = tensor_header(content).metadata
        optional = {name: described[name] for name in ("study", "arm", "next_step") if name in described}
        return {
            "step": int(described["step"]),
            "record": str(described["record"]),
            "tensors": load(content),
            **optional,
        }
    except (KeyError, ValueError, TypeError, RuntimeError, KymographError) as error:
        raise KymographError(f"{path} cannot be read; delete it to record the rest of the training alone") from error


def _wrap_train() -> None:
    """Lets every `Trainer.train` tell its callback where it resumes from, and by what exception it ends.

    transformers has no events for either.
    """
    train = Trainer.train

    @functools.wraps(train)
    def reporting(self: Any, resume_from_checkpoint: Any = None, *arguments: Any, **options: Any) -> Any:
        callbacks = [one for one in self.callback_handler.callbacks if isinstance(one, KymographCallback)]
        folder = resume_from_checkpoint
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)
        try:
            for callback in callbacks:
                callback.resume_from(str(folder) if folder else None)
            return train(self, resume_from_checkpoint, *arguments, **options)
        except BaseException as error:
            for callback in callbacks:
                callback.fail(error)
            raise

    Trainer.train = reporting


_wrap_train()
