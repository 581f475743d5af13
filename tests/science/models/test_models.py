"""The registry of models."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch
from torch import nn

from kymograph._errors import KymographError
from kymograph_studies.models import MODELS, draw_model
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.transformers import HEADS

EVERY_SETTING = {"out_ln": False, "skip": False, "expansion": 2, "w2_std": 0.3}


@pytest.mark.parametrize("name", MODELS.names())
def test_a_models_settings_are_those_that_its_build_takes(name: str) -> None:
    parameters = inspect.signature(MODELS.load(name)).parameters.values()
    named = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"depth", "width"}
    assert named == set(MODELS.part(name).properties["settings"])


@pytest.mark.parametrize("name", MODELS.names())
def test_a_model_is_drawn_from_its_generator_alone_and_settings_of_others_are_no_trouble(name: str) -> None:
    state = torch.get_rng_state()
    nets = [
        draw_model(name, 1, 8, 10, torch.Generator().manual_seed(seed), depth=2, width=8, **EVERY_SETTING)
        for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(isinstance(net, BlockNetwork) and len(net.blocks) == 2 and not net.skip for net in nets)
    one, again, other = ([*net.state_dict().values()] for net in nets)
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert nets[0](torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def test_buffers_of_a_model_are_those_that_its_constructor_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def normed() -> BlockNetwork:
        return BlockNetwork(nn.Flatten(), [nn.Linear(4, 4)], nn.BatchNorm1d(4), nn.Linear(4, 2))

    monkeypatch.setattr(type(MODELS), "load", lambda *_: lambda *shape, **settings: normed())
    net = draw_model("resmlp", 1, 2, 2, torch.Generator().manual_seed(0), depth=1, width=4)
    assert net.norm.running_var.eq(1).all() and net.norm.running_mean.eq(0).all()  # type: ignore[union-attr, operator]


def test_heads_divide_the_width() -> None:
    assert MODELS.part("vit").properties["width_multiple_of"] == HEADS


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(KymographError, match="there is no model 'resmpl'; did you mean 'resmlp'"):
        draw_model("resmpl", 1, 8, 10, torch.Generator(), depth=1, width=4)


def test_what_is_known_of_models_and_rules_is_known_without_torch() -> None:
    code = (
        "import sys; from kymograph_studies.models import MODELS; from kymograph_studies.rules import RULES; "
        "from kymograph_studies.rules.fast import ACCELERATORS; "
        "assert MODELS.names() and RULES.parts() and ACCELERATORS.parts(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
