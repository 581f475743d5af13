from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.rules.losses import (
    cross_entropy,
    error_of,
    losses_per_sample,
    output_error,
    replica_cross_entropy,
    replica_squared_error,
)
from tests.rules.networks import CASES, generator

LOGITS, Y = torch.randn(6, 10, generator=generator(0)), torch.tensor([0, 3, 9, 9, 1, 4])


def squared(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A user's own loss, which returns a scalar."""
    return (outputs - nn.functional.one_hot(y, 10)).square().mean()


def test_the_error_is_the_gradient_at_the_logits() -> None:
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, Y, reduction="sum"), logits)
    torch.testing.assert_close(output_error(logits, Y), gradient)


@pytest.mark.parametrize("loss", [cross_entropy, squared])
def test_errors_and_losses_are_each_samples_own(loss) -> None:
    logits = LOGITS.clone().requires_grad_()
    each = losses_per_sample(loss, logits, Y)
    torch.testing.assert_close(each.mean(), loss(logits, Y).sum())
    (gradient,) = torch.autograd.grad(each.sum(), logits)
    with torch.no_grad():
        torch.testing.assert_close(error_of(loss, logits, Y), gradient)


def test_replicas_are_averaged_each_on_its_own() -> None:
    case = CASES["next token"]()
    logits = case.net(case.x)
    expected = [nn.functional.cross_entropy(one, y) for one, y in zip(logits, case.y.index.view(3, -1), strict=True)]
    torch.testing.assert_close(replica_cross_entropy(logits, case.y), torch.stack(expected))
    outputs, targets = torch.randn(2, 3, 4, 5, generator=generator(1))
    expected = [nn.functional.mse_loss(one, y) for one, y in zip(outputs, targets, strict=True)]
    torch.testing.assert_close(replica_squared_error(outputs, targets), torch.stack(expected))
