"""The training of transformers' Trainer, recorded by a callback: it agrees with a plain loop, and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'kymograph[hf]'")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::Warning:transformers.*"),
    pytest.mark.filterwarnings("ignore::Warning:accelerate.*"),
]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = networks.body()
        self.fails_at: int | None = None
        self.calls = 0

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.calls += self.training
        if self.calls == self.fails_at:
            raise RuntimeError("out of paper")
        logits = self.body(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def samples() -> list[dict[str, Tensor]]:
    return [{"x": x, "labels": y} for x, y in networks.data()]


def callback(out: Path, setup: Setup = DEFAULT, arm: str = "hf", **options: Any) -> Any:
    from kymograph.hf import KymographCallback

    return KymographCallback("agreement", arm=arm, out=out, **setup.watch, **options)


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def trainer(out: Path, setup: Setup, network: nn.Module, *callbacks: Any, **options: Any) -> Any:
    arguments = transformers.TrainingArguments(**{
        "output_dir": str(out.parent / "checkpoints"), "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": setup.accumulate,
        "max_grad_norm": setup.clip, "bf16": setup.precision == "bf16-mixed", "use_cpu": True, "seed": 3,
        "logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True, **options,
    })  # fmt: skip
    optimizer = networks.optimizer_of(network)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    return InOrder(
        network, arguments, train_dataset=samples(), eval_dataset=samples(), callbacks=list(callbacks),
        optimizers=(optimizer, constant),
    )  # fmt: skip


@pytest.mark.parametrize("setup", SETUPS)
def test_the_plain_loop_and_transformers_agree(setup: Setup, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    plain = plain_loop(out, setup)
    network = Network()
    trainer(out, setup, network, callback(out, setup)).train()
    assert_same_weights(plain, network)
    assert_agreement(out, "plain", "hf")


def test_recording_does_not_change_training(tmp_path: Path) -> None:
    recorded, bare = Network(), Network()
    trainer(tmp_path / "runs", Setup(), recorded, callback(tmp_path / "runs")).train()
    trainer(tmp_path / "runs", Setup(), bare).train()
    assert all(torch.equal(one, other) for one, other in zip(recorded.parameters(), bare.parameters(), strict=True))


# What is recorded


def test_what_the_trainer_logs_is_a_series_and_its_arguments_are_settings(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    arguments = {"eval_strategy": "steps", "eval_steps": 6, "eval_on_start": True, "adam_beta2": 0.99}
    trainer(out, Setup(), Network(), callback(out, config={"width": 16}), **arguments).train()
    run = run_of(out, "hf")
    assert run.spec.seed == 3
    assert run.series["loss"].step.tolist() == [*range(12)]
    assert run.series["learning_rate"].value.tolist() == [0.01] * 12
    assert run.series["eval_loss"].step.tolist() == [0, 6, 12], "after as many updates"
    assert run.series["output_norm"].step.tolist() == [*range(12)], "evaluations are not part of a step"
    assert run.config["max_grad_norm"] == 0.1 and run.config["adam_beta2"] == 0.99 and run.config["width"] == 16
    assert not {"output_dir", "seed", "logging_steps", "adam_beta1", "activation_checkpointing"} & {*run.config}
    assert {*run.summary} == {"total_flos"}, "no timing, and no mean that depends on where the training was resumed"
    assert not [name for name in run.series if name.endswith(("runtime", "second"))] and "epoch" not in run.series


def test_evaluating_before_and_after_training_records_nothing(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    used = trainer(out, Setup(), Network(), callback(out))
    used.evaluate()
    assert not out.exists()
    used.train()
    used.evaluate()
    used.predict(samples())
    assert "eval_loss" not in run_of(out, "hf").series


def test_two_trainings_of_one_run_are_refused_before_the_second_one(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    network = Network()
    used = trainer(out, Setup(), network, callback(out))
    used.train()
    calls = network.calls
    with pytest.raises(ky.KymographError, match="agreement, hf, seed 3 is already recorded"):
        used.train()
    assert network.calls == calls


def test_a_run_that_exists_is_trained_and_not_recorded_again(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "runs"
    trainer(out, Setup(), Network(), callback(out)).train()
    before = run_of(out, "hf").series["loss"].value
    trainer(out, Setup(), Network(), callback(out, if_exists="skip")).train()
    assert "note: agreement, hf, seed 3 is already recorded; this training is not" in capsys.readouterr().err
    assert run_of(out, "hf").series["loss"].value.tolist() == before.tolist()


# How it ends


def test_a_training_that_fails_is_a_failed_run_and_can_be_trained_again(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    network = Network()
    network.fails_at = 7
    used = trainer(out, Setup(), network, callback(out))
    with pytest.raises(RuntimeError, match="out of paper"):
        used.train()
    (failed,) = ky.Store.open(out).select("agreement").failed
    assert "out of paper" in str(failed.reason)
    assert not any(module._forward_hooks for module in network.modules()), "no hook stays"
    network.fails_at = None
    used.train()
    assert run_of(out, "hf").series["loss"].step.tolist() == [*range(12)]


def test_an_interrupted_training_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class Interrupting(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(out, Setup(), Network(), callback(out), Interrupting()).train()
    with pytest.raises(ky.KymographError, match="contains no completed run"):
        ky.Store.open(out)
    assert not [*out.rglob("*.recording")], "the lock is given back"
    trainer(out, Setup(), Network(), callback(out)).train()
    assert run_of(out, "hf").series["loss"].step.tolist() == [*range(12)]


# Resuming


@pytest.mark.parametrize("failing_call, resumed_step", [(15, 4), (20, 8)])
def test_a_resumed_training_has_the_record_of_an_uninterrupted_one(
    failing_call: int, resumed_step: int, tmp_path: Path
) -> None:
    """It resumes in the middle of an epoch, from a checkpoint some steps before the failure."""
    out = tmp_path / "runs"
    plain = plain_loop(out, Setup())
    network = Network()
    network.fails_at = failing_call
    saving = {"save_strategy": "steps", "save_steps": 4}
    with pytest.raises(RuntimeError, match="out of paper"):
        trainer(out, Setup(), network, callback(out), **saving).train()
    resumed = Network()
    trainer(out, Setup(), resumed, callback(out), **saving).train(resume_from_checkpoint=True)
    assert_same_weights(plain, resumed)
    assert_agreement(out, "plain", "hf")
    assert f"resumed at step {resumed_step} from a checkpoint" in run_of(out, "hf").notes


def test_resuming_with_other_settings_is_noted(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}
    trainer(out, Setup(), Network(), callback(out), **saving, max_steps=4).train()
    folder = tmp_path / "checkpoints" / "checkpoint-4"
    trainer(out, Setup(), Network(), callback(out), **saving).train(resume_from_checkpoint=str(folder))
    longer = max(
        ky.Store.open(out).select("agreement", arms=["hf"]).finished, key=lambda run: len(run.series["loss"].step)
    )
    assert longer.series["loss"].step.tolist() == [*range(12)]
    assert "resumed at step 4 from a checkpoint that differs in max_steps (4, now -1)" in longer.notes


def test_a_checkpoint_without_a_record_is_noted(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}
    trainer(out, Setup(), Network(), **saving, max_steps=4).train()
    trainer(out, Setup(), Network(), callback(out), **saving).train(resume_from_checkpoint=True)
    run = run_of(out, "hf")
    assert run.series["output_norm"].step.tolist() == [*range(4, 12)]
    assert "the training began at step 4; steps 0 to 3 are not in the record" in run.notes


def test_a_damaged_record_in_a_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}
    trainer(out, Setup(), Network(), callback(out), **saving, max_steps=4).train()
    (path,) = (tmp_path / "checkpoints" / "checkpoint-4").glob("kymograph-agreement__hf-*.safetensors")
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], b"x" * 1000):
        path.write_bytes(damaged)
        with pytest.raises(
            ky.KymographError, match=r"kymograph-agreement__hf-\w+\.safetensors cannot be read; delete it"
        ):
            trainer(out, Setup(), Network(), callback(out), **saving).train(resume_from_checkpoint=True)


def test_each_callback_resumes_its_own_record(tmp_path: Path) -> None:
    """Two studies of one training, with names that are the same directory name."""
    from kymograph.hf import KymographCallback

    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}

    def both(**options: Any) -> list[Any]:
        arms = {"a/b": 1, "a__b": 2}
        return [KymographCallback("agreement", arm=arm, out=out, every=n, **options) for arm, n in arms.items()]

    trainer(out, Setup(), Network(), *both(), **saving).train()
    again = trainer(out, Setup(), Network(), *both(if_exists="replace"), **saving)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoints" / "checkpoint-4"))
    for arm, every in {"a/b": 1, "a__b": 2}.items():
        run = run_of(out, arm)
        assert run.series["weight_norm"].step.tolist() == [*range(0, 12, every)]
        assert [*run.notes] == ["resumed at step 4 from a checkpoint"]


def test_the_record_of_another_study_is_not_continued(tmp_path: Path) -> None:
    from kymograph.hf import KymographCallback

    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}
    trainer(out, Setup(), Network(), KymographCallback("other", arm="x", out=out, every=1), **saving).train()
    folder = tmp_path / "checkpoints" / "checkpoint-4"
    (path,) = folder.glob("kymograph*")
    path.rename(folder / "kymograph.safetensors")
    trainer(out, Setup(), Network(), callback(out), **saving).train(resume_from_checkpoint=str(folder))
    run = run_of(out, "hf")
    assert "the record in the checkpoint is not continued: it is that of other, x" in run.notes
    assert run.series["loss"].step.tolist() == [*range(4, 12)]


def test_the_file_of_earlier_versions_is_continued(tmp_path: Path) -> None:
    import json

    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}
    trainer(out, Setup(), Network(), callback(out), **saving).train()
    folder = tmp_path / "checkpoints" / "checkpoint-4"
    (path,) = folder.glob("kymograph*")
    with safe_open(path, "pt") as opened:
        described = json.loads(opened.metadata()["kymograph"])
    earlier = {"kymograph": json.dumps({name: described[name] for name in ("step", "record")})}
    save_file(load_file(path), folder / "kymograph.safetensors", earlier)
    path.unlink()
    used = trainer(out, Setup(), Network(), callback(out, if_exists="replace"), **saving)
    used.train(resume_from_checkpoint=str(folder))
    assert run_of(out, "hf").series["loss"].step.tolist() == [*range(12)]


@pytest.mark.parametrize("changed", [{"level": "light"}, {"layers": ["body.3"]}])
def test_a_training_resumed_with_another_probe_is_recorded_from_there(changed: dict[str, Any], tmp_path: Path) -> None:
    from kymograph.hf import KymographCallback

    out = tmp_path / "runs"
    saving = {"save_strategy": "steps", "save_steps": 4}

    def recording(**options: Any) -> Any:
        watch = {"level": "standard", "layers": ["body.0"], "every": 1, **options}
        return KymographCallback("agreement", arm="hf", out=out, if_exists="replace", **watch)

    trainer(out, Setup(), Network(), recording(), **saving).train()
    used = trainer(out, Setup(), Network(), recording(**changed), **saving)
    used.train(resume_from_checkpoint=str(tmp_path / "checkpoints" / "checkpoint-4"))
    run = run_of(out, "hf")
    assert run.series["loss"].step.tolist() == [*range(4, 12)] == run.series["weight_norm"].step.tolist()
    assert [*run.notes] == [
        "the record in the checkpoint is not continued: it has other quantities or layers",
        "the training began at step 4; steps 0 to 3 are not in the record",
    ]


def test_an_evaluation_under_another_prefix_is_recorded_after_as_many_updates(tmp_path: Path) -> None:
    out = tmp_path / "runs"

    class Evaluating(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 2:
                used.evaluate(metric_key_prefix="test")

    used = trainer(out, Setup(), Network(), callback(out), Evaluating())
    used.train()
    assert run_of(out, "hf").series["test_loss"].step.tolist() == [2]
