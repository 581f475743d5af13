"""Trained networks on disk, as safetensors: no code is ever stored or run."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.foreign.files import MAX_TENSORS, AnyPath, read_bytes
from kymograph.foreign.tensors import tensor_header
from kymograph.models.flat import Flat
from kymograph.rules.base import Rule
from kymograph.training.optimizers import Optimizer

SCHEMA = 1
ADDED_LATER = ("buffer.", "rule.")
"""Prefixes of names that are missing in files of earlier versions."""


def pack(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> bytes:
    """Returns tensors and JSON facts as the bytes of one safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(plain, metadata={"kymograph": json.dumps({"schema": SCHEMA, **facts}, sort_keys=True, allow_nan=False)})


def unpack(path: AnyPath, content: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and facts of a file written by `pack`; raises if it is cut off, foreign or newer.

    ``content`` is the file's bytes, if they have already been read and checked.
    """
    content = read_bytes(path, MAX_TENSORS) if content is None else content
    try:
        facts = copy.deepcopy(tensor_header(content).facts)  # headers are cached, and the caller may change its own
        schema = facts["schema"]
        if type(schema) is not int or not isinstance(facts, dict):
            raise ValueError("not a kymograph checkpoint")
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise KymographError(f"{path} is cut off or not a kymograph checkpoint") from None
    if schema > SCHEMA:
        raise KymographError(
            f"{path} has schema {schema}, newer than the {SCHEMA} this version reads; upgrade kymograph"
        )
    return tensors, facts


def network_tensors(net: nn.Module) -> dict[str, Tensor]:
    """Returns a network's tensors: ``net.NAME`` for each parameter and ``buffer.NAME`` for each buffer."""
    parameters = {f"net.{name}": parameter for name, parameter in net.named_parameters()}
    return parameters | _named_buffers(net)


def training_state(flat: Flat, optimizer: Optimizer, rule: Rule) -> dict[str, Tensor]:
    """Returns everything needed to resume an interrupted training bit for bit.

    The weights (``values``), the optimizer's own state, the network's buffers such as BatchNorm's running statistics
    (``buffer.NAME``), and the rule's state (``rule.NAME``). No tensor is a copy: `restore` fills those in use.
    """
    of_rule = {f"rule.{name}": tensor for name, tensor in rule.state_dict().items()}
    return {"values": flat.values, **optimizer.state(), **_named_buffers(rule.net), **of_rule}


def _named_buffers(net: nn.Module) -> dict[str, Tensor]:
    return {f"buffer.{name}": buffer for name, buffer in net.named_buffers()}


def restore(target: Mapping[str, Tensor], stored: Mapping[str, Tensor], path: AnyPath) -> None:
    """Copies stored tensors into ``target`` in place; raises, and copies none, if a name or a shape does not fit.

    Older files, without buffers and rules' states, are accepted: what they lack is left unchanged.
    """
    older = not any(name.startswith(ADDED_LATER) for name in stored)
    wanted = {name: tensor for name, tensor in target.items() if not (older and name.startswith(ADDED_LATER))}
    for name, tensor in wanted.items():
        if name not in stored or stored[name].shape != tensor.shape:
            raise KymographError(f"{path} does not fit this network: {name} is missing or has another shape")
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(stored[name])
