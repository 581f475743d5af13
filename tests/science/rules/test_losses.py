from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph._errors import KymographError
from kymograph_studies.rules.losses import (
    cross_entropy,
    error_of,
    output_error,
    replica_cross_entropy,
    replica_squared_error,
    target_of,
)
from tests.science.rules.networks import CASES, generator

LOGITS, Y = torch.randn(6, 10, generator=generator(0)), torch.tensor([0, 3, 9, 9, 1, 4])


def squared(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A user's own loss, which returns a scalar."""
    return (outputs - nn.functional.one_hot(y, 10)).square().mean()


def test_the_error_is_the_gradient_at_the_logits() -> None:
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits, Y, reduction="sum"), logits)
    torch.testing.assert_close(output_error(logits, Y), gradient)


@pytest.mark.parametrize("loss", [cross_entropy, squared])
def test_errors_are_each_samples_own(loss) -> None:
    logits = LOGITS.clone().requires_grad_()
    each = [loss(logits[n : n + 1], Y[n : n + 1]).sum() for n in range(len(Y))]
    (gradient,) = torch.autograd.grad(sum(each), logits)  # type: ignore[arg-type]
    with torch.no_grad():
        torch.testing.assert_close(error_of(loss, logits, Y), gradient)


def test_a_target_is_a_one_hot_vector_per_position_or_has_the_shape_of_the_outputs() -> None:
    assert torch.equal(target_of(LOGITS, Y), torch.eye(10)[Y])
    positions = torch.tensor([[0, 2], [1, 1]])
    assert torch.equal(target_of(torch.zeros(2, 2, 3), positions), torch.eye(3)[positions])
    assert torch.equal(target_of(LOGITS, LOGITS.double()), LOGITS)
    with pytest.raises(KymographError, match=r"class indices of shape \(6,\)"):
        target_of(LOGITS, torch.zeros(6))


def test_replicas_are_averaged_each_on_its_own() -> None:
    case = CASES["next token"]()
    logits = case.net(case.x)
    expected = [nn.functional.cross_entropy(one, y) for one, y in zip(logits, case.y.index.view(3, -1), strict=True)]
    torch.testing.assert_close(replica_cross_entropy(logits, case.y), torch.stack(expected))
    outputs, targets = torch.randn(2, 3, 4, 5, generator=generator(1))
    expected = [nn.functional.mse_loss(one, y) for one, y in zip(outputs, targets, strict=True)]
    torch.testing.assert_close(replica_squared_error(outputs, targets), torch.stack(expected))
