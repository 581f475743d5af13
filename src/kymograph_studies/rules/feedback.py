"""Feedback matrices: their distribution and hash, how a rule holds or redraws them, and the true chain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph import _streams as streams
from kymograph.quantities import evaluation_mode
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.cut import guess_example
from kymograph_studies.rules.base import Setup, in_blocks

LAW = "N(0, 1) / sqrt(classes)"


class Matrices(nn.Module):
    """One matrix per block, as buffers called ``0``, ``1``, ...: saved, moved and restored with their rule."""

    def __init__(self, matrices: Iterable[Tensor]) -> None:
        super().__init__()
        for number, matrix in enumerate(matrices):
            self.register_buffer(str(number), matrix)

    def __getitem__(self, block: int) -> Tensor:
        matrix = self._buffers[str(block)]
        assert matrix is not None
        return matrix

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[block] for block in range(len(self))])

    def __len__(self) -> int:
        return len(self._buffers)


def draw_feedback(draw: torch.Generator, widths: Sequence[int], classes: int) -> list[Tensor]:
    """Returns one matrix B_l (width_l, classes) per block, drawn one after the other."""
    return [torch.randn(width, classes, generator=draw) / classes**0.5 for width in widths]


def feedback_for(net: nn.Module, setup: Setup, *, shared_embed: bool = False) -> tuple[list[Tensor], Tensor | None]:
    """Returns a matrix per block, drawn for ``net`` on its device, and the embed's own, or None if it shares block 0's.

    Their shapes come from a forward pass on the example, or on one guessed from the network's first layer. The embed's
    own matrix is drawn last; with ``shared_embed`` there is none if block 0's fits.
    """
    if setup.generator is None:
        raise KymographError("this rule draws random feedback; give make(...) a generator")
    net = in_blocks(net)
    example = guess_example(net) if setup.example is None else setup.example
    with evaluation_mode(net), torch.no_grad():
        points = net.stream(example)
        classes = net.readout(points[-1]).shape[-1]
    at_embed, *widths = [net.credit_shape(point)[0] for point in points]
    if not shared_embed or at_embed != widths[0]:
        widths.append(at_embed)
    drawn = draw_feedback(setup.generator, widths, classes)
    like = next((point for point in points if point.is_floating_point()), points[0])
    matrices = [matrix.to(like.device, like.dtype) for matrix in drawn]
    blocks = len(net.blocks)
    return matrices[:blocks], matrices[blocks] if len(matrices) > blocks else None


def feedback_hash(feedback: Iterable[Tensor]) -> str:
    """Returns a hash that identifies the matrices."""
    total = hashlib.sha256()
    for matrix in feedback:
        total.update(repr(tuple(matrix.shape)).encode() + matrix.cpu().numpy().tobytes())
    return total.hexdigest()[:16]


class UpdateStream(nn.Module):
    """A seed and the number of updates so far, as a buffer: between two updates every draw is the same.

    Args:
        setup: holds the generator that the seed is drawn from.
        title: the rule's name in error messages.
    """

    state: Tensor

    def __init__(self, setup: Setup, title: str) -> None:
        super().__init__()
        if setup.generator is None:
            raise KymographError(f"{title} draws random numbers with every update; give make(...) a generator")
        seed = torch.randint(streams.MAX_SEED, (), generator=setup.generator)
        self.register_buffer("state", torch.stack([seed, torch.zeros_like(seed)]))

    def normal(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """Returns this update's normal numbers of the stream called ``name``, with ``like``'s device and dtype."""
        seed, update = self.state.tolist()
        values = torch.randn(shape or like.shape, generator=streams.generator(seed, name, str(update)))
        return values.to(like.device, like.dtype)

    def advance(self) -> None:
        """Moves on to the numbers of the next update."""
        self.state[1] += 1


def chain_of_one_sample(net: BlockNetwork, x: Tensor) -> list[Tensor] | None:
    """Returns dz/dh_l transposed, (width, outputs), for h_0 to h_L and the first sample of ``x``.

    None unless points and outputs are plain vectors. Runs in evaluation mode, where samples are independent.
    """
    with evaluation_mode(net), torch.enable_grad():
        start = net.embed(x[:1]).detach().requires_grad_()
        _, points = net.walk(start)
        outputs = net.readout(points[-1])
        if outputs.dim() != 2 or any(point.dim() != 2 for point in points):
            return None
        rows = [torch.autograd.grad(outputs[0, n], points, retain_graph=True) for n in range(outputs.shape[1])]
    return [torch.stack([row[number][0] for row in rows], 1) for number in range(len(points))]
