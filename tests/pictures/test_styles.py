from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from kymograph._errors import KymographError
from kymograph._pictures.styles import (
    STYLES,
    arm_styles,
    choose_style,
    current_style,
    drawing_in,
    html_mathematics,
    literal,
    mathtext,
    svg_mathematics,
)
from kymograph._runs.declaration import Arm, Declaration


def test_a_venue_sets_width_and_font_sizes() -> None:
    from tueplots import figsizes, fontsizes

    icml, neurips = choose_style(venue="icml2024"), choose_style("paper", "neurips2024")
    assert icml.narrow == pytest.approx(figsizes.icml2024_half()["figure.figsize"][0]) == 3.25
    assert icml.wide == pytest.approx(figsizes.icml2024_full()["figure.figsize"][0]) == 6.75
    assert neurips.narrow == neurips.wide == 5.5
    for name, size in fontsizes.neurips2024().items():
        assert neurips.rc[name] == size
    for venue in ("iclr2024", "jmlr2001", "aistats2023", "cvpr2024", "tmlr2023", "uai2023"):
        assert 3 < choose_style(venue=venue).narrow < 7  # type: ignore[operator]


def test_looks_that_do_not_exist_are_named() -> None:
    assert choose_style() is STYLES["notebook"] and choose_style("slides") is STYLES["slides"]
    with pytest.raises(KymographError, match="no style 'papr'; did you mean 'paper'"):
        choose_style("papr")
    with pytest.raises(KymographError, match="no venue 'neurips2042'; did you mean 'neurips202"):
        choose_style(venue="neurips2042")
    with pytest.raises(KymographError, match="drop the venue or the style 'notebook'"):
        choose_style("notebook", "icml2024")


def test_without_tueplots_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tueplots", None)
    with pytest.raises(KymographError, match=r"kymograph\[paper\]"):
        choose_style(venue="icml2024")
    assert choose_style("paper").wide, "a paper without a venue needs no extra"


def test_a_look_holds_inside_its_block_only() -> None:
    with pytest.raises(RuntimeError), drawing_in(STYLES["slides"]):
        assert current_style() is STYLES["slides"]
        raise RuntimeError
    assert current_style() is STYLES["notebook"]


def test_a_look_depends_on_the_declaration_and_not_on_what_was_run() -> None:
    declaration = Declaration("own", arms=(Arm("a"), Arm("b"), Arm("c", label="third", colour="green")))
    alone, all_of_them = arm_styles(declaration, ["c"]), arm_styles(declaration, ["b", "c", "a"])
    assert alone == all_of_them and alone["c"].label == "third" and alone["a"].label == "a"
    assert (alone["c"].hex, alone["c"].dashes) == ("#009E73", ())
    undeclared = arm_styles(Declaration("own"), [f"arm {n}" for n in range(40)])
    pairs = [(style.colour, style.dash) for style in undeclared.values()]
    assert len(set(pairs)) == 40 and all(a[0] != b[0] for a, b in pairwise(pairs)), "neighbours differ in colour"


def test_a_colour_that_does_not_exist_is_named_in_one_sentence() -> None:
    with pytest.raises(KymographError, match=r"the colour of arm a must be one of blue, .*, not 'red'"):
        Arm("a", colour="red")
    with pytest.raises(ValueError, match="must be one of solid"):
        Declaration.from_json({"name": "own", "arms": [{"name": "a", "dash": "wavy"}]})


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
