"""Networks on disk: our safetensors, and the ``.pt`` files of `torch.save`, read without unpickling.

A ``.pt`` file is a zip archive of a pickle and the data of each storage. The pickle says which part of which storage a
tensor is. A forged one can describe a tensor of gigabytes over a single number (strides of 0), or name any function.
Here a tensor is no larger than its storage in the file, and no named function is ever called.
"""

from __future__ import annotations

import copy
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from kymograph import KymographError
from kymograph._io.files import MAX_TENSORS, AnyPath, check_listing, opened, read_bytes
from kymograph._io.pickles import Buildable, Make, PickledName, read_pickle
from kymograph._io.tensors import tensor_header
from kymograph_studies.models.flat import Flat
from kymograph_studies.rules.base import Rule
from kymograph_studies.training.optimizers import Optimizer

SCHEMA = 1
_MAX_FILE = 512 * 2**20
_MAX_LISTING = 4 * 2**20  # of a zip archive: some 30,000 files
_DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


def pack_network(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> bytes:
    """Returns tensors and JSON metadata as the bytes of one safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    packed = json.dumps({"schema": SCHEMA, **metadata}, sort_keys=True, allow_nan=False)
    return save(plain, metadata={"kymograph": packed})


def unpack_network(path: AnyPath, content: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and metadata of a file written by `pack_network`; raises if cut off, foreign or newer.

    ``content`` is the file's bytes, if they have already been read and checked.
    """
    content = read_bytes(path, MAX_TENSORS) if content is None else content
    try:
        metadata = copy.deepcopy(tensor_header(content).metadata)  # headers are cached; the caller may change its own
        schema = metadata["schema"]
        if type(schema) is not int or not isinstance(metadata, dict):
            raise ValueError("not a kymograph checkpoint")
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise KymographError(f"{path} is cut off or not a kymograph checkpoint") from None
    if schema > SCHEMA:
        raise KymographError(
            f"{path} has schema {schema}, newer than the {SCHEMA} this version reads; upgrade kymograph"
        )
    return tensors, metadata


def network_tensors(net: nn.Module) -> dict[str, Tensor]:
    """Returns a network's tensors: ``net.NAME`` for each parameter and ``buffer.NAME`` for each buffer."""
    return {f"net.{name}": parameter for name, parameter in net.named_parameters()} | _named_buffers(net)


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
    """Copies stored tensors into ``target`` in place; raises, and copies none, if a name or a shape does not fit."""
    for name, tensor in target.items():
        if name not in stored or stored[name].shape != tensor.shape:
            raise KymographError(f"{path} does not fit this network: {name} is missing or has another shape")
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(stored[name])


def read_pt(path: AnyPath) -> Any:
    """Returns the content of a `torch.save` file; raises if it is cut off or contains more than tensors."""
    try:
        with opened(path, _MAX_FILE) as file:
            check_listing(file, _MAX_LISTING)
            with zipfile.ZipFile(file) as archive:
                return _Archive(archive).content()
    except (ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise KymographError(f"{path} is cut off, or contains more than tensors; nothing in it was executed") from None


class _Dictionary(dict[Any, Any], Buildable):
    """Replaces an OrderedDict; its attributes, such as module versions, are dropped."""

    def build(self, state: Any) -> None:
        """Ignores the state."""


class _Archive:
    """The pickle and the storages of one file."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._storages: dict[str, Tensor] = {}
        (pickled,) = (info.filename for info in archive.infolist() if info.filename.endswith("/data.pkl"))
        self._root = pickled.removesuffix("data.pkl")

    def content(self) -> Any:
        """Returns the object that the pickle describes."""
        makers: dict[tuple[str, str], Make] = {
            ("collections", "OrderedDict"): lambda *items: _Dictionary(*items),
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        return read_pickle(self._read("data.pkl"), makers, self._storage)

    def _read(self, name: str) -> bytes:
        info = self._archive.getinfo(self._root + name)
        # torch stores without compression, so that no member is larger than the file.
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError("it is compressed")
        return self._archive.read(info)

    def _storage(self, kind: Any, dtype: Any, key: Any, _device: Any, count: Any) -> Tensor:
        """Returns the data of a storage as a flat tensor."""
        if kind != "storage" or not isinstance(dtype, PickledName) or not isinstance(key, str):
            raise ValueError("it has an unknown kind of storage")
        if key not in self._storages:
            module, name = dtype.key
            content = self._read(f"data/{key}") if module == "torch" else b""
            if not content:
                self._storages[key] = torch.empty(0, dtype=_DTYPES[name])
            else:
                self._storages[key] = torch.frombuffer(bytearray(content), dtype=_DTYPES[name])
        if len(self._storages[key]) != count:
            raise ValueError("it has a storage of another size")
        return self._storages[key]

    def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
        """Returns a copy of a tensor's part of its storage; entries of the copy do not overlap in memory."""
        numbers = (offset, *size, *stride)
        if not isinstance(storage, Tensor) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("it has an invalid tensor")
        last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        count = math.prod(size)
        if count > len(storage) or (count and last >= len(storage)):
            raise ValueError("it has a tensor that is larger than its storage")
        return torch.as_strided(storage, size, stride, offset).clone()
