"""A callback that records what Lightning trains; `docs/howto/frameworks.md` has a page about it.

    >>> import lightning
    >>> from kymograph.lightning import KymographCallback
    >>> class Fit(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(4, 1)
    ...     def training_step(self, batch, index):
    ...         loss = self.layer(batch).square().mean()
    ...         self.log("loss", loss)
    ...         return loss
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), lr=0.1)
    >>> seed = lightning.seed_everything(3, verbose=False)
    >>> recording = KymographCallback("fit", arm="sgd", level="standard")
    >>> trainer = lightning.Trainer(
    ...     max_epochs=2, callbacks=[recording], accelerator="cpu", logger=False, enable_checkpointing=False,
    ...     enable_progress_bar=False, enable_model_summary=False)
    >>> trainer.fit(Fit(), torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=4))
    >>> run = ky.Store.open("runs").select("fit").finished[0]
    >>> run.seed, run.series["loss"].step.tolist(), run.series["weight_gradient_norm"].sites
    (3, [0, 1, 2, 3, 4, 5, 6, 7], ('layer',))

Its arguments are those of `kymograph.record` (``study``, ``arm``, ``seed``, ``config``, ``out``, ``if_exists``,
``question``, ``headlines``) and those of ``run.watch`` (``level``, ``every``, ``layers``, ...). It works with
``pytorch_lightning`` as well.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kymograph._experiments.lightning_callback import KymographCallback as KymographCallback
else:
    from kymograph._lazy import load_on_demand

    __getattr__, __dir__, __all__ = load_on_demand(__name__)
    del load_on_demand
