"""Several processes that train one network: who they are, how they talk, and how their readings become one.

Every rank measures its own part: its share of the batch, its shards of the weights. Nothing is communicated while a
step is measured. When readings are flushed, all ranks exchange them in a group of their own, beside the training's, and
each combines them in the same way:

- what a layer does to the batch: norms from sums of squares, sums from sums, means weighted by the entries of the
  output, units that fire on any rank;
- weights, their updates and gradients: those of shards from sums of squares or sums over the ranks that hold different
  shards; replicated ones are those of the first rank;
- what does not follow from the parts is NaN, and a note says why.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kymograph._errors import KymographError, first_line
from kymograph._io.documents import parse_json
from kymograph._io.processes import Process
from kymograph._probes.quantities.activations import MOST_ROWS
from kymograph._probes.readings import Key, Number, Row, combine_columns
from kymograph._runs.provenance import code_hash, versions

SECONDS_TO_MEET = "KYMOGRAPH_RANK_TIMEOUT"
"""The environment variable with the seconds that a rank waits for the others to begin; default: 300."""
_SECONDS_BEFORE_NOTE = 5.0
_KINDS = ("readings", "end", "save", "state", "record")
"""What ranks tell each other; all of them must say the same kind of thing, but for ranks that have ended."""
INTERRUPTED = "was interrupted"
_SAMPLED = 64
"""How many entries of an output tell whether all ranks have computed the same one."""
Message = tuple[str, bytes]


class Ranks:
    """The processes of one training, each with its number, and a channel between them beside that of the training."""

    def __init__(self, seconds: float) -> None:
        """Meets the other ranks; raises if one does not come, or has other versions of what computes."""
        import torch.distributed as dist

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._store: Any = dist.distributed_c10d._get_default_store()
        self._processes: dict[int, Process | None] = {}
        self.probes = 0
        self._meet(seconds)
        # gloo: readings are on the CPU, and must not wait for, or be mixed with, what an accelerator communicates
        _groups[self._number] = dist.new_group(backend="gloo")

    def _meet(self, seconds: float) -> None:
        self._number = self._store.add(f"kymograph/met/{self.rank}", 1)  # groups may follow each other
        number = f"kymograph/{self._number}"
        self._failures = f"{number}/failures"
        mine = {"process": Process.this().mark, **versions(), "code": code_hash()}
        self._store.set(f"{number}/{self.rank}", json.dumps(mine))
        waited = 0.0
        for rank in range(self.size):
            while True:
                patience = min(_SECONDS_BEFORE_NOTE, max(seconds - waited, 0.01))
                try:
                    self._store.wait([f"{number}/{rank}"], datetime.timedelta(seconds=patience))
                    break
                except Exception:  # which one depends on the kind of store
                    waited += patience
                if waited >= seconds:
                    raise KymographError(
                        f"rank {rank} of {self.size} has not begun to record or measure within {seconds:g} s; every "
                        "rank must call ky.record, or make the probe, at the same point of the program"
                    )
                print(f"note: rank {self.rank} waits for rank {rank} of {self.size}", file=sys.stderr)
            theirs = parse_json(self._store.get(f"{number}/{rank}"))
            self._processes[rank] = Process.of_mark(theirs.pop("process"))
            for name in theirs:
                if theirs[name] != mine.get(name):
                    what = "other code of kymograph" if name == "code" else f"{name} {theirs[name]}"
                    raise KymographError(
                        f"rank {rank} has {what} and rank {self.rank} has "
                        f"{'its own' if name == 'code' else mine.get(name)}; install the same on every rank"
                    )

    def exchange(self, kind: str, message: bytes = b"") -> list[Message]:
        """Gives every rank the messages of all, in the order of ranks; all ranks must call it at the same point."""
        import torch.distributed as dist

        header = torch.tensor([_KINDS.index(kind), len(message)])
        headers = [torch.empty_like(header) for _ in range(self.size)]
        group = _groups[self._number]
        try:
            dist.all_gather(headers, header, group=group)
            kinds, lengths = torch.stack(headers).T.tolist()
            longest = max(lengths)
            contents = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
            if longest:
                padded = torch.frombuffer(bytearray(message.ljust(longest, b"\0")), dtype=torch.uint8)
                dist.all_gather(contents, padded, group=group)
        except RuntimeError as error:
            raise KymographError(self.why_lost(error)) from error
        told = [_KINDS[int(number)] for number in kinds]
        if len({one for one in told if one != "end"}) > 1:
            raise KymographError(
                f"the ranks are out of step: {', '.join(f'rank {n} at {one}' for n, one in enumerate(told))}; every "
                "rank must make the same steps and save and finish at the same ones"
            )
        return [
            (one, bytes(content[: int(length)].numpy().tobytes()))
            for one, content, length in zip(told, contents, lengths, strict=True)
        ]

    def tell_failure(self, error: BaseException) -> None:
        """Leaves the reason why this rank failed, or that it was interrupted, where the others find it."""
        text = f"rank {self.rank} failed: {type(error).__name__}: {first_line(error, 'no message')}"
        if not isinstance(error, Exception):
            text = f"rank {self.rank} {INTERRUPTED}"
        try:
            self._store.set(f"{self._failures}/{self.rank}", text)
        except Exception:  # the store went down with the rank that kept it
            return

    def why_lost(self, error: BaseException, patience: float = 2.0) -> str:
        """Returns why the others cannot be reached: what a rank said before it failed, or which one is gone."""
        until = time.monotonic() + patience
        while True:
            for rank in (rank for rank in range(self.size) if rank != self.rank):
                if text := self._failure_of(rank):
                    return text
            if gone := self.gone():
                return f"rank {gone[0]} (process {getattr(self._processes[gone[0]], 'pid', '?')}) has died"
            if time.monotonic() > until:
                return f"rank {self.rank} lost the others: {first_line(error, 'no message')}"
            time.sleep(0.05)

    def cause(self, error: BaseException) -> BaseException:
        """Returns the error with which the training has ended: this rank's, or that of another which came first."""
        self.tell_failure(error)
        if not (isinstance(error, SystemExit) or _is_of_connection(error)):
            return error
        why = self.why_lost(error)
        if why.startswith(f"rank {self.rank} lost"):
            return error
        if why.endswith(INTERRUPTED):
            return error if isinstance(error, SystemExit) else SystemExit(why)
        return KymographError(f"{why}, and rank {self.rank} was ended")

    def _failure_of(self, rank: int) -> str:
        key = f"{self._failures}/{rank}"
        try:
            return str(self._store.get(key).decode()) if self._store.check([key]) else ""
        except Exception:  # the store went down with the rank that kept it
            return ""

    def gone(self) -> list[int]:
        """Returns the ranks whose processes have ended; of those on other hosts this cannot be known."""
        return [
            rank
            for rank, process in self._processes.items()
            if process is not None and process.can_be_queried and not process.is_alive(0.0)
        ]


def _is_of_connection(error: BaseException) -> bool:
    """Returns whether an error is that of a process which cannot reach the others."""
    if type(error).__module__ == "torch.distributed":
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in words for word in ("gloo", "nccl", "connection"))


_met: tuple[Any, Ranks] | None = None
_groups: dict[int, Any] = {}  # not in `Ranks`, which probes keep in cycles that are never collected


@atexit.register
def _part() -> None:
    """Lets go of the channel before the interpreter ends: later, torch aborts on threads of gloo that still run."""
    global _met
    _met = None
    for group in _groups.values():
        with contextlib.suppress(Exception):  # it was destroyed with all others
            torch.distributed.destroy_process_group(group)
    _groups.clear()


def ranks_here() -> Ranks | None:
    """Returns the ranks of this process's training; None if it is not one of several."""
    global _met
    if "torch.distributed" not in sys.modules or not torch.distributed.is_available():
        return None
    import torch.distributed as dist

    if not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    if _met is None or _met[0] is not dist.group.WORLD:
        _groups.clear()
        _met = dist.group.WORLD, Ranks(float(os.environ.get(SECONDS_TO_MEET, 300)))
    return _met[1]


def local(tensor: Tensor) -> Tensor:
    """Returns this rank's shard of a tensor that is sharded over ranks; any other tensor itself."""
    return tensor._local_tensor if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def is_sharded(tensor: Tensor) -> bool:
    """Returns whether a tensor is a DTensor, of which this rank holds a shard or a replica."""
    return type(tensor).__name__ == "DTensor"


def holding(parameter: Tensor, rank: int) -> tuple[str, bool]:
    """Returns over which ranks a parameter is laid out, in words, and whether this rank's part of it counts.

    Of replicas the first counts: rank 0's, or the first along every dimension of a mesh that replicates.
    """
    if not is_sharded(parameter):
        return "replicated", rank == 0
    placements, where = parameter.placements, parameter.device_mesh.get_coordinate()  # type: ignore[attr-defined]
    first = all(place == 0 for place, how in zip(where or (), placements, strict=True) if how.is_replicate())
    shards = any(how.is_shard() for how in placements)
    return ("sharded" if shards else "replicated"), first if where else False


@dataclass
class Strategy:
    """How the ranks train one network together."""

    name: str
    """``ddp``, ``fsdp2``, or ``none`` as long as neither is known to be at work."""
    divisor: float = 1.0
    """What the sum over ranks of the gradients of their losses is divided by."""
    mesh: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the mesh's dimensions, by name, if there is a mesh."""

    @property
    def shards_weights(self) -> bool:
        """Whether no rank has all weights."""
        return self.name == "fsdp2"


def strategy_of(model: nn.Module, size: int) -> Strategy:
    """Returns how the ranks share ``model``; raises if it is a way that cannot be measured."""
    if type(model).__name__ == "FullyShardedDataParallel" or any(
        type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()
    ):
        raise KymographError("FullyShardedDataParallel (FSDP1) cannot be measured; shard the model with fully_shard")
    sharded = {name: one for name, one in model.named_parameters() if is_sharded(one)}
    if not sharded:
        return _data_parallel(model, size) or Strategy("none")
    of_fsdp: dict[int, Any] = {}
    factors: set[float | None] = set()
    for module in model.modules():
        if hasattr(module, "_get_fsdp_state"):
            state = module._get_fsdp_state()  # type: ignore[operator]
            for group in getattr(state, "_fsdp_param_groups", None) or filter(None, [state._fsdp_param_group]):
                factors.add(group.gradient_divide_factor)
                of_fsdp |= {id(one.sharded_param): one for one in group.fsdp_params}
    mesh = next(iter(sharded.values())).device_mesh  # type: ignore[attr-defined]
    for name, parameter in sharded.items():
        if id(parameter) not in of_fsdp or of_fsdp[id(parameter)].is_dtensor:
            raise KymographError(
                f"{name} is sharded by tensor parallelism, which cannot be measured; data parallelism (DDP, "
                "fully_shard) can"
            )
        if parameter.device_mesh.size() != size:  # type: ignore[attr-defined]
            raise KymographError(
                f"{name} is sharded over some of the {size} ranks only, which cannot be measured; shard it over all"
            )
    if len(factors) > 1:
        raise KymographError("fully_shard divides gradients by several factors, which cannot be measured; set one")
    names = mesh.mesh_dim_names or [f"dimension {index}" for index in range(mesh.ndim)]
    return Strategy("fsdp2", factors.pop() or float(size), dict(zip(names, mesh.shape, strict=True)))


def _data_parallel(model: nn.Module, size: int) -> Strategy | None:
    while not isinstance(model, nn.parallel.DistributedDataParallel):
        if not hasattr(model, "_orig_mod"):
            return None
        model = model._orig_mod  # type: ignore[assignment]
    group = model.process_group
    if group.size() != size:
        raise KymographError(
            f"the model is trained by {group.size()} of {size} ranks; measure it where DistributedDataParallel has all"
        )
    return Strategy("ddp", float(size))


def active_data_parallel(size: int) -> Strategy | None:
    """Returns the strategy of the DistributedDataParallel whose forward pass is at work; None if there is none.

    A network may be wrapped after its probe was made, or by a framework that hands out what is inside.
    """
    active = nn.parallel.DistributedDataParallel._get_active_ddp_module()
    return None if active is None else _data_parallel(active, size)


def some_rows(output: Tensor, ranks: int) -> Tensor:
    """Returns rows of an output (samples, units), evenly spaced, at most as many on all ranks as one would use."""
    stride = -(-output.shape[0] * ranks // MOST_ROWS)
    return output[::stride].float()


def fingerprint(output: Tensor) -> str:
    """Returns some entries of an output as text, to tell whether other ranks have the same; empty if all are 0."""
    flat = output.detach().reshape(-1)
    some = flat[:: max(1, flat.numel() // _SAMPLED)][:_SAMPLED].double().cpu().numpy()
    return some.tobytes().hex() + str(flat.numel()) if some.any() else ""


class _Told:
    """What one rank has told about its readings so far: its columns, and whether each counts."""

    def __init__(self) -> None:
        self.columns: list[tuple[Key, bool]] = []
        self.ended = False


@dataclass(frozen=True)
class _Part:
    """The readings of one rank that were flushed at once."""

    steps: list[int]
    values: np.ndarray  # (steps, columns)
    read: np.ndarray  # (steps, columns), whether each was read
    units: Mapping[tuple[int, int], np.ndarray]  # by step's index and column: which units fired, or rows of an output


class RankReadings:
    """Exchanges the readings of all ranks and combines them.

    Args:
        ranks: the processes.
        rule: how the readings of a key are combined: ``norm``, ``sum``, ``max``, ``mean`` (weighted by the key's
            entries), ``first`` (the first that counts), ``union`` (of units) or ``none``.
        counts: whether this rank's reading of a key counts.
        weight: the key whose readings weight the mean of a key.
        of_gathered: by quantity, what is computed from the rows of all ranks together.
    """

    def __init__(
        self,
        ranks: Ranks,
        rule: Callable[[Key], str],
        counts: Callable[[Key], bool],
        weight: Callable[[Key], Key],
        of_gathered: Mapping[str, Callable[[Tensor], Number]],
    ) -> None:
        ranks.probes += 1  # all ranks must flush the same one
        self.ranks, self._number = ranks, ranks.probes
        self._rule, self._counts, self._weight, self._of_gathered = rule, counts, weight, of_gathered
        self._told = [_Told() for _ in range(ranks.size)]
        self._columns: dict[Key, int] = {}
        self._unheard = b""

    def exchange(
        self, steps: Sequence[int], rows: Sequence[Row], more: Mapping[str, Any], ended: bool = False
    ) -> tuple[list[dict[str, Any]], Callable[[], tuple[list[int], list[Row]]]]:
        """Sends pending readings, and more in JSON types; returns what all ranks sent, and a function that combines.

        If the others have not listened, because this rank has ended and they are saving, what is returned is empty, and
        the same readings are sent again by the next call. The function is to be called once the caller has acted on
        what the ranks said.
        """
        message = self._unheard or self._encode(steps, rows, more)
        answers = self.ranks.exchange("end" if ended else "readings", message)
        if any(kind not in ("readings", "end") for kind, _ in answers):
            self._unheard = message  # this rank has ended, and the others agree on something else
            return [{}], lambda: ([], [])
        self._unheard = b""
        told, parts = [], []
        for (kind, content), known in zip(answers, self._told, strict=True):
            said, part = self._decode(content, known)
            known.ended = kind == "end"
            told.append(said)
            parts.append(part)
        return told, functools.partial(self._combined, parts)

    @property
    def all_ended(self) -> bool:
        """Whether every rank has ended."""
        return all(known.ended for known in self._told)

    def _encode(self, steps: Sequence[int], rows: Sequence[Row], more: Mapping[str, Any]) -> bytes:
        new = list(dict.fromkeys(key for row in rows for key in row if key not in self._columns))
        self._columns |= {key: len(self._columns) + index for index, key in enumerate(new)}
        values = np.full((len(rows), len(self._columns)), np.nan)
        read = np.zeros(values.shape, dtype=bool)
        masks: list[np.ndarray] = []
        units: list[list[int]] = []
        on_devices: dict[tuple[torch.device, torch.dtype], list[tuple[int, int, Tensor]]] = {}
        for index, row in enumerate(rows):
            for key, value in row.items():
                column = self._columns[key]
                read[index, column] = True
                if isinstance(value, Tensor) and value.dim() == 2:
                    rows_of = value.cpu().numpy()
                    masks.append(np.frombuffer(rows_of.tobytes(), dtype=np.uint8))
                    units.append([index, column, value.shape[1], len(masks[-1])])
                elif isinstance(value, Tensor) and value.dim():
                    masks.append(np.packbits((value > 0).cpu().numpy()))
                    units.append([index, column, value.numel(), len(masks[-1])])
                elif isinstance(value, Tensor):
                    on_devices.setdefault((value.device, value.dtype), []).append((index, column, value))
                else:
                    values[index, column] = value
        for found in on_devices.values():  # an accelerator is asked once, not once for each reading
            at, columns, tensors = zip(*found, strict=True)
            values[at, columns] = torch.stack(tensors).cpu().double().numpy()
        head = json.dumps(
            {
                "probe": self._number,
                "columns": [[name, site, bool(self._counts((name, site)))] for name, site in new],
                "steps": list(steps),
                "units": units,
                "more": more,
            },
            allow_nan=False,
        ).encode()
        arrays = [values.tobytes(), np.packbits(read).tobytes(), *(mask.tobytes() for mask in masks)]
        return b"".join([len(head).to_bytes(8, "little"), head, *arrays])

    def _decode(self, content: bytes, known: _Told) -> tuple[dict[str, Any], _Part]:
        start = 8 + int.from_bytes(content[:8], "little")
        head = parse_json(content[8:start])
        if head["probe"] != self._number:
            raise KymographError(
                "the ranks are out of step: they have made different numbers of steps, and several networks are watched"
            )
        known.columns += [((name, site), counts) for name, site, counts in head["columns"]]
        shape = len(head["steps"]), len(known.columns)
        cells = shape[0] * shape[1]
        values = np.frombuffer(content, dtype=np.float64, count=cells, offset=start).reshape(shape)
        start += 8 * cells
        packed = np.frombuffer(content, dtype=np.uint8, count=-(-cells // 8), offset=start)
        read = np.unpackbits(packed, count=cells).astype(bool).reshape(shape)
        start += len(packed)
        units: dict[tuple[int, int], np.ndarray] = {}
        for index, column, count, size in head["units"]:
            mask = np.frombuffer(content, dtype=np.uint8, count=size, offset=start)
            if known.columns[column][0][0] in self._of_gathered:
                units[index, column] = np.frombuffer(mask.tobytes(), dtype=np.float32).reshape(-1, count)
            else:
                units[index, column] = np.unpackbits(mask, count=count).astype(bool)
            start += size
        return head["more"], _Part(head["steps"], values, read, units)

    def _combined(self, parts: Sequence[_Part]) -> tuple[list[int], list[Row]]:
        """Returns all steps and, for each, the readings of the whole batch and the whole weights."""
        steps = sorted({step for part in parts for step in part.steps})
        position = {step: index for index, step in enumerate(steps)}
        keys = list(dict.fromkeys(key for known in self._told for key, _ in known.columns))
        column_of = {key: index for index, key in enumerate(keys)}
        values = np.full((len(parts), len(steps), len(keys)), np.nan)
        read = np.zeros(values.shape, dtype=bool)
        units: dict[tuple[int, int], list[np.ndarray]] = {}
        for rank, (part, known) in enumerate(zip(parts, self._told, strict=True)):
            if not part.steps:
                continue
            at = [position[step] for step in part.steps]
            columns = [column_of[key] for key, _ in known.columns]
            counts = np.array([counts for _, counts in known.columns], dtype=bool)
            values[rank][np.ix_(at, columns)] = part.values
            read[rank][np.ix_(at, columns)] = part.read & counts
            for (index, column), mask in part.units.items():
                units.setdefault((at[index], columns[column]), []).append(mask)
        combined = np.full(values.shape[1:], np.nan)
        for column, key in enumerate(keys):
            how = self._rule(key)
            each = [(values[rank, :, column], read[rank, :, column]) for rank in range(len(parts))]
            if how in ("norm", "sum", "max"):
                combined[:, column] = combine_columns(each, how)
            elif how == "first":
                for value, present in reversed(each):
                    combined[present, column] = value[present]
            elif how == "mean" and (weight := column_of.get(self._weight(key))) is not None:
                weights = np.where(read[:, :, column], values[:, :, weight], 0.0)
                summed = np.where(read[:, :, column], weights * values[:, :, column], 0.0).sum(0)
                with np.errstate(invalid="ignore", divide="ignore"):
                    combined[:, column] = summed / weights.sum(0)
        for (index, column), masks in units.items():
            if self._rule(keys[column]) == "gathered" and len(masks) == int(read[:, index, column].sum()):
                rows = torch.from_numpy(np.concatenate(masks))
                combined[index, column] = float(self._of_gathered[keys[column][0]](rows))
            elif keys[column][0] not in self._of_gathered and len({len(mask) for mask in masks}) == 1:
                combined[index, column] = np.count_nonzero(np.any(masks, axis=0))
        somewhere = np.asarray(read.any(0))
        return steps, [
            {key: float(combined[index, column]) for key, column in column_of.items() if somewhere[index, column]}
            for index in range(len(steps))
        ]
