from __future__ import annotations

import pytest
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from kymograph.pictures.styles import html_mathematics, literal, mathtext, svg_mathematics
from kymograph.studies.loading import built_in_studies


@pytest.mark.parametrize(
    ("label", "set_"),
    [
        ("‖h_L‖", r"$\|h_{L}\|$"),
        ("‖∂L/∂h_ℓ‖, median", r"$\|\partial L/\partial h_{\ell }\|$, median"),
        ("|Δ‖w‖|", r"|Δ$\|w\|$|"),
        ("at h_12 and final_h_L", r"at $h_{12}$ and final_h_L"),
        (r"already $x_1$ and h_2", r"already $x_1$ and h_2"),
        ("plain", "plain"),
    ],
)
def test_norms_and_subscripts_become_formulas_and_names_do_not(label: str, set_: str) -> None:
    assert mathtext(label) == set_
    MathTextParser("path").parse(set_)


def test_pages_set_subscripts_and_escape_the_rest() -> None:
    assert html_mathematics("<b>‖h_L‖") == "&lt;b&gt;‖<i>h</i><sub>L</sub>‖"
    assert "<tspan" in svg_mathematics("h_3") and svg_mathematics("<a>") == "&lt;a&gt;"
    assert html_mathematics("resmlp_dfa_x") == "resmlp_dfa_x"


def test_what_the_built_in_studies_declare_can_be_set() -> None:
    for study in built_in_studies():
        declared = study.declaration()
        tables = [text for columns in declared.tables.values() for text in columns.values()]
        for text in (*declared.headlines.values(), *(one.unit for one in declared.series), *tables):
            assert "||" not in text, text
            MathTextParser("path").parse(mathtext(text))


@pytest.mark.parametrize(
    "name", [r"$\frac{$", "5 $", "$$$", "a$_$", r"$\nocommand$", r"\$", "$x$ and $", "two\n$\\frac{$"]
)
def test_a_name_that_cannot_be_typeset_is_drawn_as_it_is(name: str) -> None:
    shown = [
        Text(0, 0, one)._preprocess_math(line) for one in (literal(name), mathtext(name)) for line in one.split("\n")
    ]
    assert [text for text, _ in shown] == 2 * name.split("\n") and not any(formula for _, formula in shown)
    MathTextParser("path").parse(f"$h_2$ {literal(name)}")


def test_formulas_in_names_stay() -> None:
    assert literal(r"$\alpha$ = 1") == r"$\alpha$ = 1" and literal("h_2") == "h_2"
    assert literal("$" + "x" * 5000 + "$").startswith(r"\$"), "it would take long to set"
