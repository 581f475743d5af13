"""Generated tasks: tokens with a rare class, marked sums, and vector regression.

The rare class of the script's tokens cannot be learned; `learnable_tokens` are like them, but theirs can. In both, most
targets are class 0 and ``n_rare`` of them, at random positions, are class 1. Held-out samples are fresh ones from the
same distribution, balanced over the two classes, from a stream that training never draws from.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import kymograph as ky
from kymograph_studies.script_randomness import script_generator, script_random

COMMON_CLASS, RARE_CLASS = 0, 1


@dataclass(frozen=True)
class TokenTask:
    """Tokens and their targets, in the order in which they are trained on."""

    inputs: Tensor  # (samples,) int64, in [0, vocab)
    targets: Tensor  # (samples,) int64, in [0, vocab)
    vocab: int

    def counts(self) -> Tensor:
        """Returns how many samples have each (target, token) pair, shape (vocab, vocab), float64."""
        pairs = self.targets * self.vocab + self.inputs
        return torch.bincount(pairs, minlength=self.vocab**2).view(self.vocab, self.vocab).double()

    def bayes_answers(self) -> Tensor:
        """Returns the class most common at each token, shape (vocab,): what the most accurate predictor answers."""
        return self.counts().argmax(dim=0)

    def bayes_recall(self) -> Tensor:
        """Returns, per class, the recall of the most accurate predictor of class from token.

        A class that wins no token has recall 0: nothing in the data rewards answering it, though a model on its way
        may. A class without samples has NaN.
        """
        counts = self.counts()
        won = torch.zeros_like(counts).scatter_(0, self.bayes_answers()[None], 1.0)
        return (counts * won).sum(1) / counts.sum(1)


def script_tokens(seed: int, n_samples: int, n_rare: int, vocab: int) -> TokenTask:
    """Returns the script's data: tokens uniform, targets independent of them, so the rare class is unlearnable."""
    inputs = torch.randint(0, vocab, (n_samples,), generator=script_generator(seed))
    targets = torch.full((n_samples,), COMMON_CLASS)
    targets[script_random(seed).sample(range(n_samples), n_rare)] = RARE_CLASS
    return TokenTask(inputs, targets, vocab)


def learnable_tokens(seed: int, n_samples: int, n_rare: int, vocab: int, label_noise: float) -> TokenTask:
    """Returns data where the last token announces the rare class, wrongly in a fraction ``label_noise`` of its uses.

    The rare positions are the script's. A fraction ``label_noise`` of them carries a common token, and as many
    common positions carry the rare token; all others carry the token of their class.
    """
    rare = script_random(seed).sample(range(n_samples), n_rare)
    draw = ky.generator(seed, "tokens")
    rare_token = vocab - 1
    inputs = torch.randint(0, rare_token, (n_samples,), generator=draw)
    targets = torch.full((n_samples,), COMMON_CLASS)
    targets[rare] = RARE_CLASS
    noisy = round(label_noise * n_rare)
    inputs[rare[noisy:]] = rare_token
    common = (targets == COMMON_CLASS).nonzero()[:, 0]
    inputs[common[torch.randperm(len(common), generator=draw)[:noisy]]] = rare_token
    return TokenTask(inputs, targets, vocab)


def script_held_out(seed: int, per_class: int, vocab: int) -> TokenTask:
    """Returns fresh samples from the script's distribution, ``per_class`` of each class: tokens uniform in both."""
    inputs = torch.randint(0, vocab, (2 * per_class,), generator=_held_out_stream(seed))
    return TokenTask(inputs, _balanced_targets(per_class), vocab)


def learnable_held_out(
    seed: int, per_class: int, n_samples: int, n_rare: int, vocab: int, label_noise: float
) -> TokenTask:
    """Returns fresh samples from the distribution of `learnable_tokens`, ``per_class`` of each class.

    Each class carries the rare token with the frequency that it has in this class in training.
    """
    draw = _held_out_stream(seed)
    targets = _balanced_targets(per_class)
    rare_token = vocab - 1
    inputs = torch.randint(0, rare_token, targets.shape, generator=draw)
    noisy = round(label_noise * n_rare)
    # Without rare samples there is nothing to announce, and nothing is wrongly announced.
    announced = torch.tensor([noisy / (n_samples - n_rare), 1 - noisy / n_rare if n_rare else 0.0])
    inputs[torch.rand(targets.shape, generator=draw) < announced[targets]] = rare_token
    return TokenTask(inputs, targets, vocab)


def _held_out_stream(seed: int) -> torch.Generator:
    return ky.generator(seed, "held-out tokens")


def _balanced_targets(per_class: int) -> Tensor:
    return torch.tensor([COMMON_CLASS, RARE_CLASS]).repeat_interleave(per_class)


MARKS = 3  # none, A, B


@dataclass(frozen=True)
class MarkedSums:
    """Sequences of tokens, two of them marked; the class is the sum of the marked values modulo the number of values.

    A token is a value without a mark, or with mark A, or with mark B. One A and one B are at random positions among
    values without marks. Which values are marked is a linear function of the tokens in a sequence; their sum modulo the
    number of values is not, so a read-out of fixed features cannot learn it.
    """

    tokens: Tensor  # (samples, length) int64, in [0, vocab)
    labels: Tensor  # (samples,) int64, in [0, values)
    values: int

    @property
    def vocab(self) -> int:
        """How many tokens there are: every value without a mark, with A and with B."""
        return MARKS * self.values


def marked_sums(seed: int, samples: int, values: int, length: int) -> MarkedSums:
    """Returns ``samples`` independent sequences of ``length`` tokens, from the seed's own stream.

    >>> task = marked_sums(42, 100, values=5, length=6)
    >>> task.tokens.shape, int(task.labels.max()) < 5
    (torch.Size([100, 6]), True)
    """
    draw = ky.generator(seed, "marked sums")
    tokens = torch.randint(0, values, (samples, length), generator=draw)
    positions = torch.rand(samples, length, generator=draw).argsort(1)
    marked = torch.randint(0, values, (samples, 2), generator=draw)
    rows = torch.arange(samples)
    for mark in (0, 1):
        tokens[rows, positions[:, mark]] = marked[:, mark] + (mark + 1) * values
    return MarkedSums(tokens, marked.sum(1) % values, values)


@dataclass(frozen=True)
class VectorTask:
    """Training vectors with targets, and a separate fixed batch on which every arm is measured."""

    inputs: Tensor  # (samples, width)
    targets: Tensor  # (samples, width)
    probe_inputs: Tensor  # (probe samples, width)
    probe_targets: Tensor  # (probe samples, width)


def vector_task(seed: int, kind: str, n_samples: int, width: int, n_probe: int) -> VectorTask:
    """Returns uniform inputs in [-1, 1] with targets equal to them (``identity``) or rotated (``orthogonal``).

    A residual network whose branches start at zero solves the identity before training; no initialisation
    used here solves a random rotation.
    """
    inputs = _uniform(ky.generator(seed, "data"), n_samples, width)
    probe = _uniform(ky.generator(seed, "probe"), n_probe, width)
    if kind == "identity":
        return VectorTask(inputs, inputs.clone(), probe, probe.clone())
    rotation = random_orthogonal(seed, width)
    return VectorTask(inputs, inputs @ rotation, probe, probe @ rotation)


def random_orthogonal(seed: int, width: int) -> Tensor:
    """Returns an orthogonal matrix uniform under the Haar measure (QR of a Gaussian, signs fixed by R's diagonal)."""
    gaussian = torch.randn(width, width, generator=ky.generator(seed, "task"), dtype=torch.float64)
    orthogonal, triangular = torch.linalg.qr(gaussian)
    haar: Tensor = orthogonal * triangular.diagonal().sign()
    return haar.float()


def batch_indices(seed: int, steps: int, batch_size: int, n_samples: int) -> Tensor:
    """Returns the sample indices of every batch, drawn with replacement, shape (steps, batch)."""
    return torch.randint(0, n_samples, (steps, batch_size), generator=ky.generator(seed, "batches"))


def _uniform(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.empty(*shape).uniform_(-1.0, 1.0, generator=draw)
