"""Small networks that hold one kind of layer each, in float64, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.science.rules.networks import Case, generator, shaken

F = nn.functional
CLASSES, SAMPLES, WIDTH, LENGTH = 4, 6, 8, 5


class Doing(nn.Module):
    """Layers, and a forward pass through them that is given as a function."""

    def __init__(self, run: Callable[..., Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, h: Tensor) -> Tensor:
        """Runs the function on the layers and the input."""
        return self.run(self, h)


class Product(nn.Module):
    """``tanh(h W)`` and ``tanh(V h)``, written as matrix products with bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.right, self.left = nn.Parameter(torch.zeros(WIDTH, WIDTH)), nn.Parameter(torch.zeros(WIDTH, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        """Multiplies from either side."""
        return torch.tanh(self.left @ torch.tanh(torch.mm(h, self.right)).mT).mT


class Tied(nn.Module):
    """One weight that is used three times, once transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        """Uses the layer twice, and its weight once more."""
        return F.linear(torch.tanh(self.layer(torch.tanh(self.layer(h)))), self.layer.weight.t())


def vectors() -> Tensor:
    return torch.randn(SAMPLES, WIDTH, generator=generator(1), dtype=torch.float64)


def sequences() -> Tensor:
    return torch.randn(SAMPLES, WIDTH, LENGTH, generator=generator(1), dtype=torch.float64)


def images() -> Tensor:
    return torch.randn(SAMPLES, 2, 6, 6, generator=generator(1), dtype=torch.float64)


def tokens() -> Tensor:
    return torch.randint(0, 7, (SAMPLES, LENGTH), generator=generator(1))


def _on_vectors(make: Callable[[], nn.Module]) -> Callable[[], Case]:
    return lambda: _case(vectors(), nn.Linear(WIDTH, WIDTH), [make(), make()], nn.Linear(WIDTH, CLASSES))


def _on_sequences(make: Callable[[], nn.Module]) -> Callable[[], Case]:
    head = Doing(lambda own, h: own.out(h.mean(2)), out=nn.Linear(WIDTH, CLASSES))
    return lambda: _case(sequences(), nn.Conv1d(WIDTH, WIDTH, 1), [make(), make()], head)


def _on_images(make: Callable[[], nn.Module]) -> Callable[[], Case]:
    head = Doing(lambda own, h: own.out(h.mean((2, 3))), out=nn.Linear(WIDTH, CLASSES))
    return lambda: _case(images(), nn.Conv2d(2, WIDTH, 3, padding=1), [make(), make()], head)


def _on_tokens(make: Callable[[], nn.Module]) -> Callable[[], Case]:
    head = Doing(lambda own, h: own.out(h.mean(1)), out=nn.Linear(WIDTH, CLASSES))
    return lambda: _case(tokens(), nn.Embedding(7, WIDTH), [make(), make()], head)


def _case(x: Tensor, embed: nn.Module, blocks: list[nn.Module], head: nn.Module) -> Case:
    net = nn.Sequential(embed, *blocks, head).double()
    y = torch.randint(0, CLASSES, (SAMPLES,), generator=generator(2))
    return Case(shaken(_spread_out(net)), x, y, F.cross_entropy)


def _spread_out(net: nn.Module) -> nn.Module:
    """Draws every weight of two axes or more, bare parameters too."""
    draw = generator(9)
    with torch.no_grad():
        for own in net.parameters():
            if own.dim() >= 2:
                own.copy_(torch.randn(own.shape, generator=draw, dtype=torch.float64) / own[0].numel() ** 0.5)
    return net


def _attend(own: Any, h: Tensor) -> Tensor:
    return h + own.attention(own.norm(h), h, h)[0]  # query, key and value are not one tensor


def _self_attend(own: Any, h: Tensor) -> Tensor:
    return h + own.attention(h, h, h, need_weights=False)[0]


def _functional_attention(own: Any, h: Tensor) -> Tensor:
    q, k, v = own.qkv(h).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
    return h + own.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def _dense(own: Any, h: Tensor) -> Tensor:
    one = torch.tanh(own.one(h))
    return own.two(torch.cat([h, one], 1))  # both ways lead on


KINDS: dict[str, Callable[[], Case]] = {
    "linear": _on_vectors(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU(inplace=True))),
    "products of bare parameters": _on_vectors(Product),
    "a weight used three times": _on_vectors(Tied),
    "conv1d": _on_sequences(lambda: nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 3, padding="same"), nn.Tanh())),
    "conv1d, even kernel": _on_sequences(lambda: nn.Conv1d(WIDTH, WIDTH, 2, padding="same", groups=2)),
    "conv2d": _on_images(lambda: nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=2, dilation=2), nn.GELU())),
    "conv2d, strides and groups": _on_images(
        lambda: nn.Conv2d(WIDTH, WIDTH, (1, 3), stride=(1, 2), groups=2, padding=1)
    ),
    "transposed conv1d": _on_sequences(lambda: nn.ConvTranspose1d(WIDTH, WIDTH, 3, stride=2, output_padding=1)),
    "transposed conv2d": _on_images(lambda: nn.Sequential(nn.ConvTranspose2d(WIDTH, WIDTH, 2, padding=1), nn.ELU())),
    "embedding": _on_tokens(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())),
    "attention of torch": _on_tokens(
        lambda: Doing(_attend, attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True), norm=nn.LayerNorm(WIDTH))
    ),
    "self-attention of torch": _on_tokens(
        lambda: Doing(_self_attend, attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True, dropout=0.2))
    ),
    "scaled dot-product attention": _on_tokens(
        lambda: Doing(_functional_attention, qkv=nn.Linear(WIDTH, 3 * WIDTH), out=nn.Linear(WIDTH, WIDTH))
    ),
    "transformer layer of torch": _on_tokens(lambda: nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True)),
    "batch norm": _on_vectors(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())),
    "batch norm of images": _on_images(lambda: nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3), nn.BatchNorm2d(WIDTH))),
    "layer norm": _on_vectors(lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU())),
    "group norm": _on_images(lambda: nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1), nn.GroupNorm(2, WIDTH), nn.ReLU())),
    "pooling": _on_images(
        lambda: nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.MaxPool2d(2, 1), nn.AvgPool2d(2, 1))
    ),
    "dropout": _on_vectors(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.4))),
    "residual": _on_vectors(
        lambda: Doing(lambda own, h: h + own.two(F.gelu(own.one(h))), one=nn.Linear(WIDTH, 9), two=nn.Linear(9, WIDTH))
    ),
    "dense skips": _on_vectors(lambda: Doing(_dense, one=nn.Linear(WIDTH, WIDTH), two=nn.Linear(2 * WIDTH, WIDTH))),
}
