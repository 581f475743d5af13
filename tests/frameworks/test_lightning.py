"""Lightning's training, recorded by a callback: it agrees with a plain loop, resumes, and ends as it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import kymograph as ky
from tests.frameworks import networks
from tests.frameworks.networks import (
    BATCH,
    DEFAULT,
    EPOCHS,
    SETUPS,
    Setup,
    assert_agreement,
    assert_same_weights,
    plain_loop,
    run_of,
)

lightning = pytest.importorskip("lightning", reason="Lightning is not installed: pip install 'kymograph[lightning]'")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::Warning:lightning.*"),
    pytest.mark.filterwarnings("ignore::Warning:pytorch_lightning.*"),
    pytest.mark.filterwarnings("ignore::Warning:torchmetrics.*"),
]


class Module(lightning.LightningModule):
    def __init__(self, lr: float = 1e-2, loss_function: Any = None) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=[] if loss_function else ["loss_function"])
        self.body = networks.body()
        self.fails_at: int | None = None

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        x, y = batch
        if self.fails_at == self.global_step:
            raise RuntimeError("out of paper")
        loss = nn.functional.cross_entropy(self.body(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.body(x), y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return networks.optimizer_of(self)


def loader() -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(networks.data(), batch_size=BATCH)  # type: ignore[arg-type]


def callback(out: Path, setup: Setup = DEFAULT, arm: str = "lightning", **options: Any) -> Any:
    from kymograph.lightning import KymographCallback

    lightning.seed_everything(3, verbose=False)
    return KymographCallback("agreement", arm=arm, out=out, **setup.watch, **options)


def trainer(out: Path, setup: Setup, *callbacks: Any, **options: Any) -> Any:
    return lightning.Trainer(**{
        "max_epochs": EPOCHS, "accumulate_grad_batches": setup.accumulate, "gradient_clip_val": setup.clip,
        "precision": setup.precision, "callbacks": list(callbacks), "logger": False, "accelerator": "cpu",
        "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "default_root_dir": out.parent, **options,
    })  # fmt: skip


@pytest.mark.parametrize("setup", SETUPS)
def test_the_plain_loop_and_lightning_agree(setup: Setup, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    network = plain_loop(out, setup)
    module = Module()
    trainer(out, setup, callback(out, setup)).fit(module, loader())
    assert_same_weights(network, module)
    assert_agreement(out, "plain", "lightning")


def test_recording_does_not_change_training(tmp_path: Path) -> None:
    recorded, bare = Module(), Module()
    trainer(tmp_path / "runs", Setup(), callback(tmp_path / "runs")).fit(recorded, loader())
    trainer(tmp_path / "runs", Setup()).fit(bare, loader())
    assert all(torch.equal(one, other) for one, other in zip(recorded.parameters(), bare.parameters(), strict=True))


# What is recorded


def test_what_the_module_logs_is_a_series_and_its_hyperparameters_are_settings(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class Logging(Module):
        def on_train_epoch_end(self) -> None:
            self.log("epoch_number", float(self.current_epoch))

        def training_step(self, batch: Any, index: int) -> Tensor:
            loss = super().training_step(batch, index)
            self.log("detail", loss, on_step=True, on_epoch=True)
            if self.global_step % 3 == 0:
                self.log("rare", float(index))
            return loss

    module = Logging(lr=0.02, loss_function=nn.CrossEntropyLoss())
    used = trainer(out, Setup(accumulate=1), callback(out, config={"width": 16}), check_val_every_n_epoch=1)
    used.fit(module, loader(), loader())
    run = run_of(out, "lightning")
    assert run.seed == 3
    assert run.series["loss"].step.tolist() == [*range(24)] == run.series["detail_step"].step.tolist()
    assert run.series["rare"].step.tolist() == [*range(0, 24, 3)], "a value is recorded once"
    assert run.series["detail_epoch"].step.tolist() == [11, 23]
    assert run.series["epoch_number"].step.tolist() == [11, 23], "the module's hook runs after the callback's"
    assert run.series["epoch_number"].value.tolist() == [0, 1]
    assert run.series["val_loss"].step.tolist() == [12, 24], "after as many updates, without the sanity check"
    mean = run.series["loss"].value.reshape(2, 12).mean(axis=1)
    np.testing.assert_allclose(run.series["detail_epoch"].value, mean, rtol=1e-6)
    assert run.series["output_norm"].step.tolist() == [*range(24)]
    assert run.config["lr"] == 0.02 and run.config["width"] == 16 and run.config["trainer.gradient_clip_val"] == 0.1
    assert "not stored as settings, because a record cannot hold them: loss_function" in run.notes


def test_validation_in_the_middle_of_training_changes_no_quantity(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    setup = Setup()
    trainer(out, setup, callback(out, arm="without")).fit(Module(), loader())
    used = trainer(out, setup, callback(out), val_check_interval=3)  # between the two batches of a step
    used.fit(Module(), loader(), loader())
    used.validate(Module(), loader())
    used.test(TestModule(), loader())
    assert_agreement(out, "without", "lightning")


def test_validation_with_gradients_is_not_part_of_the_step_that_it_interrupts(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class WithGradients(Module):
        def validation_step(self, batch: Any, index: int) -> None:
            with torch.enable_grad():
                self.body(100 * batch[0])

    trainer(out, Setup(), callback(out, arm="without")).fit(Module(), loader())
    trainer(out, Setup(), callback(out), val_check_interval=3).fit(WithGradients(), loader(), loader())
    assert_agreement(out, "without", "lightning")


class TestModule(Module):
    __test__ = False

    def test_step(self, batch: Any, index: int) -> None:
        self.validation_step(batch, index)


def test_validate_and_test_alone_record_nothing(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    trainer(out, Setup(), callback(out)).validate(Module(), loader())
    trainer(out, Setup(), callback(out)).test(TestModule(), loader())
    assert not out.exists()


class Manual(Module):
    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:  # type: ignore[override]
        x, y = batch
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(nn.functional.cross_entropy(self.body(x), y))
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self) -> Any:
        half = self.body[:3], self.body[3:]
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in half]


def test_two_optimizers_of_manual_optimization_are_both_read(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    used = trainer(out, Setup(), callback(out), gradient_clip_val=None, accumulate_grad_batches=1)
    used.fit(Manual(), loader())
    gradients = run_of(out, "lightning").series["weight_gradient_norm"]
    assert gradients.step.tolist() == [*range(0, 48, 2)], "Lightning counts the steps of both"
    assert np.isfinite(gradients.value).all() and gradients.sites == ("body.0", "body.2", "body.3", "body.5")


def test_a_counter_that_skips_the_multiples_of_every_is_measured_next(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class Later(Manual):
        def training_step(self, batch: Any, index: int) -> None:  # type: ignore[override]
            if self.global_step:
                return super().training_step(batch, index)
            self.manual_backward(nn.functional.cross_entropy(self.body(batch[0]), batch[1]))
            self.optimizers()[0].step()

    used = trainer(out, Setup(), callback(out, Setup(every=10)), gradient_clip_val=None, accumulate_grad_batches=1)
    used.fit(Later(), loader())
    assert run_of(out, "lightning").series["weight_norm"].step.tolist() == [0, 11, 21, 31, 41]


def test_a_scaler_of_lightning_is_found(tmp_path: Path) -> None:
    """Lightning's own setting for fp16 is refused on a CPU; its plugin is not."""
    from lightning.pytorch.plugins import MixedPrecision

    out = tmp_path / "runs"
    setup = Setup(precision="16-mixed")
    network = plain_loop(out, setup)
    scaler = networks.scaler()
    module = Module()
    plugin = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    trainer(out, setup, callback(out), precision=None, plugins=[plugin]).fit(module, loader())
    assert scaler.get_scale() > networks.scaler().get_scale(), "it was at work"
    assert_same_weights(network, module)
    assert_agreement(out, "plain", "lightning")
    trainer(out, Setup(), callback(out, arm="32")).fit(Module(), loader())
    assert_agreement(out, "32", "lightning", 0.05, {"output_gradient_norm", "raw_weight_gradient_norm"})


def test_a_training_without_a_seed_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = trainer(tmp_path / "runs", Setup(), callback(tmp_path / "runs"))
    monkeypatch.delenv("PL_GLOBAL_SEED")
    with pytest.raises(ky.KymographError, match="the training has no seed; give KymographCallback seed="):
        used.fit(Module(), loader())
    assert not (tmp_path / "runs").exists()


# How it ends


def test_a_training_that_fails_is_a_failed_run_and_can_be_trained_again(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    module = Module()
    module.fails_at = 4
    with pytest.raises(RuntimeError, match="out of paper"):
        trainer(out, Setup(), callback(out)).fit(module, loader())
    (failed,) = ky.Store.open(out).select("agreement").failed
    assert "out of paper" in str(failed.reason)
    assert not any(part._forward_hooks for part in module.modules()), "no hook stays"
    trainer(out, Setup(), callback(out)).fit(Module(), loader())
    assert run_of(out, "lightning").series["loss"].step.tolist() == [*range(12)]


def test_an_interrupted_training_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class Interrupting(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3:
                raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        trainer(out, Setup(), callback(out), Interrupting()).fit(Module(), loader())
    with pytest.raises(ky.KymographError, match="contains no completed run"):
        ky.Store.open(out)
    assert not [*out.rglob("*.recording")], "the lock is given back"


# Resuming


@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_training_has_the_record_of_an_uninterrupted_one(first: bool, tmp_path: Path) -> None:
    """It resumes from the end of the first epoch, two steps before the failure, in either order of callbacks."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    out = tmp_path / "runs"
    network = plain_loop(out, Setup())
    module = Module()
    module.fails_at = 8
    saving = ModelCheckpoint(tmp_path, filename="last", every_n_train_steps=6)
    order = [callback(out), saving] if first else [saving, callback(out)]
    with pytest.raises(RuntimeError, match="out of paper"):
        trainer(out, Setup(), *order, enable_checkpointing=True).fit(module, loader())
    content = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert "KymographCallback{'study': 'agreement', 'arm': 'lightning'}" in content["callbacks"], "no pickled object"
    resumed = Module()
    trainer(out, Setup(), callback(out)).fit(resumed, loader(), ckpt_path=tmp_path / "last.ckpt")
    assert_same_weights(network, resumed)
    assert_agreement(out, "plain", "lightning")
    assert "resumed at step 6 from a checkpoint" in run_of(out, "lightning").notes


def test_a_resumed_training_with_two_optimizers_lacks_no_step(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    options = {"gradient_clip_val": None, "accumulate_grad_batches": 1}
    used = trainer(out, Setup(), callback(out), max_epochs=1, **options)
    used.fit(Manual(), loader())
    used.save_checkpoint(tmp_path / "end.ckpt")
    again = trainer(out, Setup(), callback(out, if_exists="replace"), **options)
    again.fit(Manual(), loader(), ckpt_path=tmp_path / "end.ckpt")
    run = run_of(out, "lightning")
    assert run.series["weight_norm"].step.tolist() == [*range(0, 48, 2)]
    assert not [note for note in run.notes if "not in the record" in note]


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_at_the_end_of_an_epoch_has_what_the_module_logs_there(first: bool, tmp_path: Path) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    out = tmp_path / "runs"

    class Logging(Module):
        def on_train_epoch_end(self) -> None:
            self.log("epoch_number", float(self.current_epoch))

    saving = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    order = [callback(out), saving] if first else [saving, callback(out)]
    trainer(out, Setup(), *order, enable_checkpointing=True).fit(Logging(), loader())
    again = trainer(out, Setup(), callback(out, if_exists="replace"))
    again.fit(Logging(), loader(), ckpt_path=tmp_path / "epoch=0.ckpt")
    series = run_of(out, "lightning").series["epoch_number"]
    assert (series.step.tolist(), series.value.tolist()) == ([5, 11], [0, 1])


def test_a_second_fit_continues_the_record_of_the_first(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    plain_loop(out, Setup())
    module = Module()
    used = trainer(out, Setup(), callback(out, if_exists="replace"), max_epochs=1)
    used.fit(module, loader())
    assert len(run_of(out, "lightning").series["loss"].step) == 6
    used.test(TestModule(), loader())
    used.fit_loop.max_epochs = 2
    used.fit(module, loader())
    both, plain = run_of(out, "lightning"), run_of(out, "plain")
    assert both.series["loss"].step.tolist() == [*range(12)] == both.series["gradient_cosine"].step.tolist()
    np.testing.assert_allclose(both.series["loss"].value[:7], plain.series["loss"].value[:7], rtol=1e-6)
    assert np.isfinite(both.series["gradient_cosine"].value[6]).all(), "compared with the last step of the first fit"
    assert "resumed at step 6 from a checkpoint" in both.notes


def test_a_second_fit_of_one_run_is_refused_before_it_trains(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    trainer(out, Setup(), callback(out)).fit(Module(), loader())
    module = Module()
    with pytest.raises(ky.KymographError, match="agreement, lightning, seed 3 is already recorded"):
        trainer(out, Setup(), callback(out)).fit(module, loader())
    assert_same_weights(Module(), module, 0)


def test_a_checkpoint_that_is_loaded_to_test_is_not_resumed_from(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    used = trainer(out, Setup(), callback(out))
    used.fit(Module(), loader())
    used.save_checkpoint(tmp_path / "end.ckpt")
    fresh = callback(out, if_exists="replace")
    other = trainer(out, Setup(), fresh)
    other.test(TestModule(), loader(), ckpt_path=tmp_path / "end.ckpt")
    other.fit(Module(), loader())
    run = run_of(out, "lightning")
    assert run.series["loss"].step.tolist() == [*range(12)] and not run.notes


def test_pytorch_lightning_works_as_well(tmp_path: Path) -> None:
    """The older name of the same package has classes of its own."""
    other = pytest.importorskip("pytorch_lightning")

    class Other(other.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.body = networks.body()

        training_step, configure_optimizers = Module.training_step, Module.configure_optimizers
        fails_at = None

    out = tmp_path / "runs"
    plain_loop(out, Setup())
    used = other.Trainer(
        max_epochs=EPOCHS, accumulate_grad_batches=2, gradient_clip_val=0.1, callbacks=[callback(out)], logger=False,
        accelerator="cpu", enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    used.fit(Other(), loader())
    assert_agreement(out, "plain", "lightning")
