"""Small networks with the module names of those that people train, and recorded runs of them for the gallery.

Each network learns a task of random inputs in a few dozen steps on one core. Run as a program, this module records the
runs of every study in `STUDIES` (or of those named) below a directory:

    python docs/_extensions/networks.py runs [NAME ...]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import kymograph as ky

WORDS, LENGTH, CLASSES = 32, 24, 10


class Attention(nn.Module):
    """Causal attention with separate projections, as in Llama; positions are left to the embedding."""

    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class GatedMLP(nn.Module):
    """Llama's MLP."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(dim, 2 * dim, bias=False) for _ in range(2))
        self.down_proj, self.act_fn = nn.Linear(2 * dim, dim, bias=False), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """A pre-norm block."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(dim), GatedMLP(dim)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """A language model with the module names of ``LlamaForCausalLM``."""

    def __init__(self, layers: int, dim: int = 32) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(WORDS, dim)
        self.model.layers = nn.ModuleList(LlamaLayer(dim) for _ in range(layers))
        self.model.norm = nn.RMSNorm(dim)
        self.lm_head = nn.Linear(dim, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.model.embed_tokens(words)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


class GPTBlock(nn.Module):
    """nanoGPT's block: ``attn_dropout`` never runs, because fused attention has a dropout of its own."""

    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.attn.attn_dropout, self.attn.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.mlp.c_fc, self.mlp.gelu, self.mlp.c_proj = nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        self.mlp.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        x = x + self.attn.resid_dropout(self.attn.c_proj(y.transpose(1, 2).flatten(2)))
        return x + self.mlp.dropout(self.mlp.c_proj(self.mlp.gelu(self.mlp.c_fc(self.ln_2(x)))))


class GPT(nn.Module):
    """A language model with nanoGPT's module names."""

    def __init__(self, layers: int = 6, dim: int = 32) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(WORDS, dim),
                "wpe": nn.Embedding(LENGTH, dim),
                "drop": nn.Dropout(0.1),
                "h": nn.ModuleList(GPTBlock(dim) for _ in range(layers)),
                "ln_f": nn.LayerNorm(dim),
            }
        )
        self.lm_head = nn.Linear(dim, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        parts = self.transformer
        x = parts["drop"](parts["wte"](words) + parts["wpe"](torch.arange(words.shape[1])))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


class BasicBlock(nn.Module):
    """ResNet-18's block; with ``skip=False`` its branch alone."""

    def __init__(self, inside: int, outside: int, stride: int, skip: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.skip = skip
        if skip:
            self.shortcut = nn.Sequential()
        if skip and (stride != 1 or inside != outside):
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x) if self.skip else y)


class ResNet18(nn.Module):
    """A thin ResNet-18 with the module names of kuangliu's pytorch-cifar."""

    def __init__(self, width: int = 4, skip: bool = True) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        inside = width
        for stage in range(4):
            outside, stride = width * 2**stage, 1 if stage == 0 else 2
            blocks = (
                BasicBlock(inside, outside, stride, skip),
                BasicBlock(outside, outside, 1, skip),
            )
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inside = outside
        self.linear = nn.Linear(inside, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.linear(x.mean((2, 3)))


class Bottleneck(nn.Module):
    """DenseNet's layer: its output is concatenated to its input."""

    def __init__(self, inside: int, growth: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inside), nn.Conv2d(inside, 4 * growth, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x)))))), x], 1)


class Transition(nn.Module):
    """Halves the channels and the side of the image."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.bn, self.conv = nn.BatchNorm2d(inside), nn.Conv2d(inside, outside, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.conv(F.relu(self.bn(x))), 2)


class DenseNet(nn.Module):
    """A thin DenseNet-121 with the module names of kuangliu's pytorch-cifar."""

    def __init__(self, lengths: tuple[int, ...] = (6, 12, 24, 16), growth: int = 2) -> None:
        super().__init__()
        planes = 2 * growth
        self.conv1 = nn.Conv2d(3, planes, 3, padding=1, bias=False)
        for stage, length in enumerate(lengths, 1):
            layers = [Bottleneck(planes + layer * growth, growth) for layer in range(length)]
            setattr(self, f"dense{stage}", nn.Sequential(*layers))
            planes += length * growth
            if stage < len(lengths):
                setattr(self, f"trans{stage}", Transition(planes, planes // 2))
                planes //= 2
        self.bn, self.linear = nn.BatchNorm2d(planes), nn.Linear(planes, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        x = self.trans1(self.dense1(x))
        x = self.trans2(self.dense2(x))
        x = self.trans3(self.dense3(x))
        return self.linear(F.relu(self.bn(self.dense4(x))).mean((2, 3)))


class WordLSTM(nn.Module):
    """PyTorch's word language model: an encoder, a stacked LSTM, a decoder."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.1), nn.Embedding(WORDS, dim)
        self.rnn, self.decoder = nn.LSTM(dim, dim, num_layers=2, batch_first=True), nn.Linear(dim, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        return self.decoder(self.drop(self.rnn(self.drop(self.encoder(words)))[0]))


class DoubleConv(nn.Module):
    """The U-Net's two convolutions."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]
        layers += [nn.Conv2d(outside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]
        self.double_conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Down(nn.Module):
    """A halving of the image, and two convolutions."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inside, outside))

    def forward(self, x: Tensor) -> Tensor:
        return self.maxpool_conv(x)


class Up(nn.Module):
    """A doubling of the image, joined by the output of the same size on the way down, and two convolutions."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inside, inside // 2, 2, stride=2)
        self.conv = DoubleConv(inside, outside)

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        return self.conv(torch.cat([beside, self.up(x)], 1))


class OutConv(nn.Module):
    """The map from channels to classes."""

    def __init__(self, inside: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class UNet(nn.Module):
    """A thin U-Net with the module names of milesial's Pytorch-UNet; it returns the mean logits of its map."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(4)]
        self.inc = DoubleConv(3, width)
        self.down1, self.down2, self.down3 = (Down(a, b) for a, b in itertools.pairwise(sizes))
        self.up1, self.up2, self.up3 = (Up(b, a) for a, b in zip(sizes[2::-1], sizes[:0:-1], strict=True))
        self.outc = OutConv(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        one = self.inc(x)
        two = self.down1(one)
        three = self.down2(two)
        x = self.up1(self.down3(three), three)
        return self.outc(self.up3(self.up2(x, two), one)).mean((2, 3))


class MLP(nn.Sequential):
    """Linear layers with ReLUs between them, on flattened images."""

    def __init__(self, depth: int, width: int = 64) -> None:
        layers: list[nn.Module] = [nn.Flatten(), nn.Linear(192, width), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Linear(width, width), nn.ReLU()]
        super().__init__(*layers, nn.Linear(width, CLASSES))


class Detached(nn.Module):
    """A trunk, and a branch from which no gradient comes back: its weights never learn."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Linear(192, width)
        self.trunk = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6))
        self.branch = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = y = self.stem(x.flatten(1))
        for trunk, branch in zip(self.trunk, self.branch, strict=True):
            x, y = x + trunk(x), y + branch(y)
        return self.head(x + y.detach())


class DyingMLP(MLP):
    """An MLP whose biases start so low that several ReLUs are dead for every sample."""

    def __init__(self, shift: float) -> None:
        super().__init__(depth=9)
        linear = [layer for layer in self if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            linear[5].bias -= shift


def sentences(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of sentences, in which every word follows from the one before by chance, and the next words."""
    follow = torch.randint(0, WORDS, (WORDS, 2), generator=generator)
    while True:
        words = [torch.randint(0, WORDS, (16,), generator=generator)]
        for _ in range(LENGTH):
            words.append(follow[words[-1], torch.randint(0, 2, (16,), generator=generator)])
        batch = torch.stack(words, 1)
        yield batch[:, :-1], batch[:, 1:]


def images(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches of images, (32, 3, 8, 8), each one of ten random images with noise, and their classes."""
    means = torch.randn(CLASSES, 3, 8, 8, generator=generator)
    while True:
        labels = torch.randint(0, CLASSES, (32,), generator=generator)
        yield means[labels] + torch.randn(32, 3, 8, 8, generator=generator), labels


@dataclass(frozen=True)
class NetworkStudy:
    """A study of the gallery: its question, the network of every arm and its data, and the figure that is shown."""

    question: str
    caption: str
    """What the picture shows."""
    figure: str
    """The kind of figure and the series."""
    arms: dict[str, Callable[[], nn.Module]]
    data: Callable[[torch.Generator], Iterator[tuple[Tensor, Tensor]]] = images
    steps: int = 60
    rate: float = 3e-3
    warmup: dict[str, int] = field(default_factory=dict)
    """The steps over which the learning rate rises, by arm; default: none."""


STUDIES = {
    "llama": NetworkStudy(
        "A Llama with six layers, with and without warm-up",
        "Without warm-up the outputs of all blocks (large, on top) grow from the first steps on, those of the deepest "
        "most; with it they start to grow ten steps later. Queries and keys change most in the first layer.",
        "kymograph",
        {"warm-up": lambda: Llama(6), "no warm-up": lambda: Llama(6)},
        sentences,
        rate=1e-2,
        warmup={"warm-up": 30},
    ),
    "llama-deep": NetworkStudy(
        "A Llama with 32 layers",
        "355 layers in one picture: every family is a strip with depth as its axis. Gradients are largest in the first "
        "blocks at the start, and shrink in all of them within twenty steps.",
        "kymograph-output_gradient_norm",
        {"Llama": lambda: Llama(32, dim=16)},
        sentences,
    ),
    "gpt": NetworkStudy(
        "nanoGPT, and modules that never run",
        "Its `attn_dropout` is in the module tree but never called, because fused attention has a dropout of its own: "
        "it is left out, and named below.",
        "kymograph-output_gradient_norm",
        {"GPT": GPT},
        sentences,
    ),
    "resnet": NetworkStudy(
        "ResNet-18 with and without shortcuts",
        "Rows are matched by name: where the second network has no such layer, its strip is hatched. Block `2.0` is "
        "the first of the second stage.",
        "kymograph",
        {"ResNet-18": ResNet18, "no shortcut": lambda: ResNet18(skip=False)},
    ),
    "densenet": NetworkStudy(
        "DenseNet-121",
        "The 58 blocks of its four stages are one family. Gradients are largest where the second stage begins, and "
        "smallest where the third ends.",
        "kymograph-output_gradient_norm",
        {"DenseNet": DenseNet},
        steps=30,
    ),
    "unet": NetworkStudy(
        "U-Net",
        "The blocks on the way down and on the way up are two families, with the level as depth: on the way up the "
        "outputs grow in training, on the way down they hardly change.",
        "kymograph",
        {"U-Net": UNet},
    ),
    "lstm": NetworkStudy(
        "LSTM",
        "Few layers are one map, each with its name; `rnn[1][1]` is the cell state among the outputs of `rnn`.",
        "kymograph",
        {"LSTM": WordLSTM},
        sentences,
    ),
    "mlp": NetworkStudy(
        "MLPs of six and of eight layers",
        "Both have their own last layer; rows that only one of them has are hatched in the other.",
        "kymograph-update_norm",
        {"6 layers": lambda: MLP(6), "8 layers": lambda: MLP(8)},
    ),
    "architectures": NetworkStudy(
        "Two architectures",
        "Arms that share fewer than half of their layers have rows and colour scales of their own, and one axis of "
        "time.",
        "kymograph",
        {"ResNet-18": ResNet18, "MLP": lambda: MLP(10)},
    ),
    "detached": NetworkStudy(
        "A detached branch",
        "The branch runs, so its layers stay, in grey: no gradient reaches them.",
        "kymograph-output_gradient_norm",
        {"detached": Detached},
    ),
    "dying": NetworkStudy(
        "Dead ReLUs",
        "Behind the dead layer every gradient is exactly 0, which on a log scale has a colour of its own.",
        "kymograph-output_gradient_norm",
        {"usual": lambda: DyingMLP(0.0), "dead": lambda: DyingMLP(2.0)},
    ),
    "profile": NetworkStudy(
        "Profiles along depth",
        "The same families as rows, the start, the middle and the end of training as columns; depth runs down, and "
        "every family has its own axis.",
        "profiles-output_gradient_norm",
        {"ResNet-18": ResNet18, "no shortcut": lambda: ResNet18(skip=False)},
    ),
}


def record(name: str, directory: str, seeds: int = 3, steps: int | None = None) -> None:
    """Trains every arm of a study with several seeds, and records the sizes of outputs, gradients and updates."""
    study = STUDIES[name]
    for seed in ky.fixed_seeds(seeds):
        for arm, build in study.arms.items():
            torch.manual_seed(seed)
            model, data = build(), study.data(torch.Generator().manual_seed(seed))
            optimizer = torch.optim.Adam(model.parameters(), study.rate)
            warmup = study.warmup.get(arm, 1)
            with ky.record(name, arm=arm, seed=seed, out=directory, question=study.question) as run:
                run.watch(model, optimizer, level="light", every=1)
                for step in run.steps(steps or study.steps):
                    optimizer.param_groups[0]["lr"] = study.rate * min(1.0, (step + 1) / warmup)
                    optimizer.zero_grad()
                    x, y = next(data)
                    loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
                    loss.backward()
                    optimizer.step()
                    run.log(loss=loss)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in sys.argv[2:] or STUDIES:
        record(one, sys.argv[1])
