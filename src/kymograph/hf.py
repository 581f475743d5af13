"""A callback that records what the `Trainer` of transformers trains; `docs/howto/frameworks.md` has a page about it.

    >>> from transformers import Trainer, TrainingArguments
    >>> from kymograph.hf import KymographCallback
    >>> class Fit(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(4, 1)
    ...     def forward(self, x):
    ...         return {"loss": self.layer(x).square().mean()}
    >>> arguments = TrainingArguments(
    ...     output_dir="fit", seed=3, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=1,
    ...     save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True)
    >>> recording = KymographCallback("fit", arm="adamw", level="standard")
    >>> data = [{"x": x} for x in torch.randn(16, 4)]
    >>> trained = Trainer(Fit(), arguments, train_dataset=data, callbacks=[recording]).train()
    {...
    >>> run = ky.Store.open("runs").select("fit").finished[0]
    >>> run.seed, run.series["loss"].step.tolist(), run.series["weight_gradient_norm"].sites
    (3, [0, 1, 2, 3, 4, 5, 6, 7], ('layer',))

Its arguments are those of `kymograph.record` (``study``, ``arm``, ``seed``, ``config``, ``out``, ``if_exists``,
``question``, ``headlines``) and those of ``run.watch`` (``level``, ``every``, ``layers``, ...).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kymograph._experiments.trainer_callback import KymographCallback as KymographCallback
else:
    from kymograph._lazy import load_on_demand

    __getattr__, __dir__, __all__ = load_on_demand(__name__)
    del load_on_demand
