from __future__ import annotations

import pytest
import torch

from kymograph._errors import KymographError
from kymograph_studies.rules import make
from kymograph_studies.rules.feedback import Matrices, draw_feedback, feedback_hash
from tests.science.rules.networks import CASES, blocks_of, generator


def test_feedback_has_its_law_and_its_hash_and_is_drawn_in_order() -> None:
    one, two = (draw_feedback(generator(1), widths, 10) for widths in ([400, 400], [400]))
    assert torch.equal(one[0], two[0]), "a matrix does not depend on how many follow"
    assert not torch.equal(one[0], one[1])
    assert one[0].std() == pytest.approx(10**-0.5, rel=0.03)
    again = draw_feedback(generator(1), [400, 400], 10)
    assert feedback_hash(one) == feedback_hash(again) != feedback_hash(two)


def test_matrices_are_buffers_under_their_numbers() -> None:
    matrices = Matrices(draw_feedback(generator(1), [4, 3], 2))
    assert list(matrices.state_dict()) == ["0", "1"] and len(matrices) == 2
    assert [tuple(matrix.shape) for matrix in matrices] == [(4, 2), (3, 2)]
    assert matrices.double()[1].dtype == torch.float64


def test_shapes_are_learned_from_an_example_that_leaves_no_trace() -> None:
    case = CASES["convolutions with BatchNorm"]()
    before = {name: buffer.clone() for name, buffer in case.net.named_buffers()}
    draw = generator(3)
    rule = make("dfa", case.net, generator=draw, example=case.x[:2], shared_embed=True)
    assert all(torch.equal(buffer, before[name]) for name, buffer in case.net.named_buffers())
    assert case.net.training
    expected = [matrix.double() for matrix in draw_feedback(generator(3), [4, 4], 5)]
    assert all(torch.equal(a, b) for a, b in zip(rule.matrices(), expected, strict=True))


def test_an_embed_of_another_width_has_its_own_matrix_drawn_last() -> None:
    case = CASES["sequential"]()
    rule = case.rule("dfa", seed=4)
    widths = [point.shape[-1] for point in blocks_of(case.net).stream(case.x)]
    assert widths == [9, 7, 6]
    *blocks, embed = draw_feedback(generator(4), [7, 6, 9], 5)
    assert all(torch.equal(a, b.double()) for a, b in zip(rule.matrices(), blocks, strict=True))
    assert torch.equal(rule.state_dict()["embed_feedback"], embed.double())


@pytest.mark.parametrize("name", ["dfa", "fa", "kp", "wm", "frsf", "brsf", "random-credit"])
def test_without_a_generator_nothing_can_be_drawn(name: str) -> None:
    case = CASES["resmlp"]()
    with pytest.raises(KymographError, match=r"give make\(...\) a generator"):
        make(name, case.net, example=case.x)


def test_without_an_example_the_first_layer_says_what_the_inputs_are() -> None:
    case = CASES["resmlp"]()
    found, expected = (make("dfa", case.net, generator=generator(1), example=x) for x in (None, case.x))
    assert all(torch.equal(a, b) for a, b in zip(found.matrices(), expected.matrices(), strict=True))


def test_an_option_that_a_rule_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="penalty"):
        CASES["resmlp"]().rule("bp", penalty=1.0)
    with pytest.raises(KymographError, match="there is no rule 'dfb'; did you mean 'dfa'"):
        CASES["resmlp"]().rule("dfb")
