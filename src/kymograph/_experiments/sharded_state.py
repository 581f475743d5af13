"""The state of objects that are sharded over ranks: each rank saves and restores its own shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from kymograph._errors import KymographError
from kymograph._probes.distributed import is_sharded, local

_SHARD = "shard of a tensor"


def with_shards(state: Any) -> Any:
    """Returns a nested state in which each sharded tensor is this rank's shard, with what is needed to restore it."""

    def taken_apart(tensor: Any) -> Any:
        layout = tensor.device_mesh.mesh
        return {
            _SHARD: local(tensor),
            "placements": [str(how) for how in tensor.placements],
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "mesh": layout.clone(),
        }

    return _mapped(state, lambda leaf: taken_apart(leaf) if isinstance(leaf, Tensor) and is_sharded(leaf) else leaf)


def without_shards(state: Any, objects: Iterable[Any]) -> Any:
    """Returns what `with_shards` took apart, on the meshes that the ``objects`` of this process are sharded over."""
    meshes: list[Any] = []
    placements: dict[str, Any] = {}

    def look(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and is_sharded(leaf):
            meshes.append(leaf.device_mesh)  # type: ignore[attr-defined]
            placements.update({str(how): how for how in leaf.placements})  # type: ignore[attr-defined]
        return leaf

    for one in objects:
        _mapped(one.state_dict(), look)
        for group in getattr(one, "param_groups", ()):
            _mapped(group["params"], look)
    return _put_together(state, meshes, placements)


def _put_together(state: Any, meshes: list[Any], placements: Mapping[str, Any]) -> Any:
    if isinstance(state, Mapping) and _SHARD in state:
        from torch.distributed.tensor import DTensor

        mesh = next((one for one in meshes if one.mesh.equal(state["mesh"])), None)
        if mesh is None or any(how not in placements for how in state["placements"]):
            raise KymographError("the state on disk is sharded in another way than the objects; start over")
        return DTensor.from_local(
            state[_SHARD].to(mesh.device_type), mesh, [placements[how] for how in state["placements"]],
            run_check=False, shape=torch.Size(state["shape"]), stride=tuple(state["stride"]),
        )  # fmt: skip
    if isinstance(state, Mapping):
        return {key: _put_together(value, meshes, placements) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_put_together(value, meshes, placements) for value in state)
    return state


def _mapped(state: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(state, Mapping):
        return {key: _mapped(value, function) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_mapped(value, function) for value in state)
    return function(state)
