"""A pretended accelerator: the package runs on a CPU build of torch as if the machine had one, and is watched.

Tensors that code puts on the pretended device stay in the CPU's memory, and their storages are tagged with the device.
Two modes keep up the appearance. The one on torch functions replaces the device wherever code names one, and answers
when code asks a tensor where it is. The one on dispatch sees every operation that torch carries out, those of the
backward pass too, and raises where a real accelerator would: operands on two devices, a generator of another device.

    with pretended_device("cuda"):
        torch.ones(2, device="cuda") * torch.ones(2)  # RuntimeError: Expected all tensors to be on the same device

The arithmetic is the CPU's, so results must equal those on the CPU bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

CPU = torch.device("cpu")
SWEEP_EVERY = 10_000

_aten = torch.ops.aten
COPIES = {_aten.copy_, _aten.copy, _aten._foreach_copy_}
"""Operations between devices."""
INDEXING = {_aten.index, _aten._unsafe_index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}
"""Operations whose indices (the second argument) may stay on the CPU."""
WITH_CPU_SCALARS = {*INDEXING, _aten.masked_fill, _aten.masked_fill_, _aten.fill_, _aten.where, _aten.clamp}
"""Operations that take 0-dimensional tensors of the CPU, beside those that torch tags as pointwise."""


class Tags:
    """Which storages lie on which pretended device; every other one lies on the CPU.

    A storage is known by its address. The weak reference keeps the address from being used again while it is known.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[torch.device, StorageWeakRef]] = {}
        self._puts = 0

    def of(self, tensor: Tensor) -> torch.device:
        """Returns the device on which ``tensor`` pretends to be."""
        if tensor.is_meta:
            return tensor.device
        known = self._known.get(tensor.untyped_storage()._cdata)
        return CPU if known is None else known[0]

    def put(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Notes that ``tensor``, and all that shares its memory, is on ``device``; returns it."""
        if tensor.is_meta:
            return tensor
        storage = tensor.untyped_storage()
        if device == CPU:
            self._known.pop(storage._cdata, None)
        else:
            self._known[storage._cdata] = device, StorageWeakRef(storage)
            self._puts += 1
            if self._puts % SWEEP_EVERY == 0:
                self._known = {key: entry for key, entry in self._known.items() if not entry[1].expired()}
        return tensor


class Operations(TorchDispatchMode):
    """Checks the devices of every operation's operands, and puts its results where they are."""

    def __init__(self, tags: Tags) -> None:
        super().__init__()
        self._tags = tags

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Says no: nothing is compiled here, and torch would import its compiler, for seconds, only to skip it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            if func.overloadpacket in COPIES:
                return func(*args, **kwargs)
            device = self._common_device(func, args, kwargs)
            result = func(*args, **kwargs)
            if device != CPU:
                for tensor in _tensors((result,)):
                    if device.type == "mps" and tensor.dtype == torch.float64:
                        raise TypeError("the MPS framework doesn't support float64")
                    self._tags.put(tensor, device)
            return result

    def _common_device(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
        devices = {self._tags.of(tensor) for tensor in _tensors((*args, *kwargs.values()))}
        if len(devices) > 1:
            devices = self._binding_devices(func, args, kwargs)
        if len(devices) > 1:
            found = " and ".join(sorted(map(str, devices)))
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {found}! ({func})"
            )
        device = devices.pop() if devices else CPU
        if kwargs.get("generator") is not None:
            _check_generator(kwargs["generator"], device)
        return device

    def _binding_devices(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[torch.device]:
        """Returns the devices of the operands except for the indices and scalars that torch fetches from the CPU."""
        takes_scalars = func.overloadpacket in WITH_CPU_SCALARS or torch.Tag.pointwise in func.tags
        takes_indices = func.overloadpacket in INDEXING
        names, written = _arguments(func)
        devices = set()
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            for tensor in _tensors((value,)):
                device = self._tags.of(tensor)
                scalar = takes_scalars and tensor.dim() == 0 and name not in written
                if device != CPU or not (scalar or (takes_indices and name == "indices")):
                    devices.add(device)
        return devices


class Functions(TorchFunctionMode):
    """Replaces the pretended device where code names it, and answers where code asks for it."""

    def __init__(self, name: str, tags: Tags) -> None:
        super().__init__()
        self._name, self._tags = name, tags
        self._replaced: dict[Any, Callable[..., Any]] = {
            Tensor.device.__get__: lambda tensor, *_: tags.of(tensor),
            Tensor.is_cuda.__get__: lambda tensor, *_: tags.of(tensor).type == "cuda",
            Tensor.is_mps.__get__: lambda tensor, *_: tags.of(tensor).type == "mps",
            Tensor.is_cpu.__get__: lambda tensor, *_: tags.of(tensor).type == "cpu",
            Tensor.get_device: lambda tensor: -1 if tags.of(tensor) == CPU else tags.of(tensor).index,
            Tensor.to: self._to,
            Tensor.type_as: lambda tensor, other: self._to(tensor, other),
            Tensor.cpu: lambda tensor, *_, **__: self.moved(tensor, CPU),
            Tensor.cuda: lambda tensor, device="cuda", *_, **__: self.moved(tensor, self.device(device)),
            Tensor.pin_memory: lambda tensor, *_: tensor,
            Tensor.new_tensor: self._new_tensor,
            Tensor.numpy: functools.partial(self._only_on_cpu, Tensor.numpy),
            Tensor.__array__: functools.partial(self._only_on_cpu, Tensor.__array__),
            Tensor.__deepcopy__: self._deepcopy,
            Tensor.grad.__set__: self._set_grad,
            Tensor.register_hook: self._register_hook,
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        replaced = self._replaced.get(func)
        if replaced is not None:
            return replaced(*args, **kwargs)
        if kwargs.get("device") is not None:
            return self._made(func, args, dict(kwargs))
        return func(*args, **kwargs)

    def device(self, device: Any) -> torch.device:
        """Returns ``device`` with its index, which is 0 where code gives none."""
        if isinstance(device, int):
            return torch.device(self._name, device)
        found = torch.device(self._name if device is None else device)
        return torch.device(found.type, found.index or 0) if found.type == self._name else torch.device(found.type)

    def moved(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Returns ``tensor`` if it is on ``device``, and a copy there otherwise."""
        here = self._tags.of(tensor)
        if device.type == "mps" and tensor.dtype == torch.float64:
            raise TypeError("the MPS framework doesn't support float64")
        return tensor if here == device else _Move.apply(tensor, here, device, self._tags)

    def _made(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls a function that makes a tensor on the device named, or brings one there."""
        device = self.device(kwargs["device"])
        if kwargs.get("generator") is not None:
            _check_generator(kwargs["generator"], device)
        if device.type == self._name:
            kwargs["device"] = CPU
            kwargs.pop("pin_memory", None)
        result = func(*args, **kwargs)
        if func in (torch.as_tensor, torch.asarray):  # the result may be an argument
            return self.moved(result, device)
        if device.type == "mps" and result.dtype == torch.float64:
            raise TypeError("the MPS framework doesn't support float64")
        return self._tags.put(result, device)

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        other = kwargs.pop("other", None)
        if args and isinstance(args[0], Tensor):
            other, args = args[0], args[1:]
        if isinstance(other, Tensor):
            device, dtype, order = self._tags.of(other), other.dtype, None
        else:
            copied = kwargs.pop("copy", False)
            asked, dtype, _, order = torch._C._nn._parse_to(*args, **kwargs)
            device = self._tags.of(tensor) if asked is None else self.device(asked)
            tensor = tensor.clone() if copied else tensor
        # What narrows a number is done first, and what widens it last, as the device may not have float64.
        early = device.type == "mps"
        options = {} if order is None else {"memory_format": order}
        if dtype is not None and early:
            tensor = tensor.to(dtype, **options)
        tensor = self.moved(tensor, device)
        return tensor.to(dtype, **options) if dtype is not None and not early else tensor

    def _new_tensor(self, tensor: Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        where = self._tags.of(tensor) if device is None else self.device(device)
        return self._tags.put(tensor.new_tensor(*args, **kwargs), where)

    def _only_on_cpu(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._tags.of(tensor) != CPU:
            raise TypeError(
                f"can't convert {self._tags.of(tensor)} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return func(tensor, *args, **kwargs)

    def _deepcopy(self, tensor: Tensor, memo: dict[int, Any]) -> Tensor:
        # Storages are copied without an operation that the other mode could see.
        return self._tags.put(Tensor.__deepcopy__(tensor, memo), self._tags.of(tensor))

    def _set_grad(self, tensor: Tensor, gradient: Tensor | None) -> None:
        if gradient is not None and self._tags.of(gradient) != self._tags.of(tensor):
            raise RuntimeError("assigned grad has data located on a different device")
        tensor.grad = gradient

    def _register_hook(self, tensor: Tensor, hook: Callable[[Tensor], Any]) -> Any:
        def watched(gradient: Tensor) -> Any:
            with self:  # the backward pass is a torch function, inside of which this mode is off
                return hook(gradient)

        return tensor.register_hook(watched)


class _Move(torch.autograd.Function):
    """A copy on another device, whose gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, here: torch.device, there: torch.device, tags: Tags) -> Tensor:
        ctx.here, ctx.tags = here, tags
        return tags.put(tensor.clone(), there)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.tags.put(gradient.clone(), ctx.here), None, None, None


@contextmanager
def pretended_device(name: str = "cuda", count: int = 1) -> Iterator[None]:
    """Lets ``count`` devices of the kind ``name`` (``cuda`` or ``mps``) seem to exist for the length of a block."""
    tags = Tags()
    functions = Functions(name, tags)
    load = torch.load

    def load_there(*args: Any, map_location: Any = None, **kwargs: Any) -> Any:
        content = load(*args, map_location="cpu", **kwargs)
        if map_location is None:
            return content
        return tree_map_only(Tensor, lambda tensor: functions.moved(tensor, functions.device(map_location)), content)

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch, "load", load_there))
        for module, replacements in _appearance(name, count):
            for attribute, value in replacements.items():
                stack.enter_context(patch.object(module, attribute, value))
        stack.enter_context(Operations(tags))
        stack.enter_context(functions)
        yield


def _appearance(name: str, count: int) -> list[tuple[Any, dict[str, Any]]]:
    """Returns what torch says about the machine: by module, the attributes to replace."""
    if name == "mps":
        return [(torch.backends.mps, {"is_available": lambda: True})]

    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: count,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: "Pretended GPU",
        "get_device_capability": lambda device=None: (8, 0),
        "get_device_properties": lambda device=None: SimpleNamespace(name="Pretended GPU", total_memory=2**34),
        "synchronize": lambda *_, **__: None,
        "empty_cache": lambda *_, **__: None,
        "manual_seed_all": lambda *_, **__: None,
    }
    return [
        (torch.cuda, cuda),
        (torch.version, {"cuda": "12.4"}),
        (torch.backends.cudnn, {"version": lambda: 90100}),
    ]


def _check_generator(generator: torch.Generator, device: torch.device) -> None:
    if generator.device.type != device.type:
        raise RuntimeError(f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'")


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yields the tensors among ``values`` and in the lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


@functools.cache
def _arguments(func: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns the names of an operation's arguments, and of those that it writes to."""
    arguments = func._schema.arguments
    written = (a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write)
    return tuple(argument.name for argument in arguments), frozenset(written)
