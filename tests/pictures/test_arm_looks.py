from __future__ import annotations

from itertools import pairwise

import pytest

from kymograph.errors import KymographError
from kymograph.pictures.styles import COLOURS, DASHES, arm_styles
from kymograph.runs.declaration import Arm, Declaration
from kymograph.studies.loading import built_in_studies


def test_every_arm_of_every_study_has_a_look_of_its_own() -> None:
    """One colour used to mean three arms. Where there are more arms than looks, those of one chart differ."""
    for study in built_in_studies():
        looks = arm_styles(study.declaration())
        chart = {arm.name: arm.panel if len(looks) > len(COLOURS) * len(DASHES) else "" for arm in study.arms()}
        drawn = {(look.colour, look.dash, chart[arm]) for arm, look in looks.items()}
        assert len(drawn) == len(looks), study.name
        assert len({look.label for look in looks.values()}) == len(looks), study.name
        assert not any("_" in look.label or "/" in look.label for look in looks.values()), study.name


def test_default_arms_of_all_studies_but_one_rules_variants_look_different_on_one_page() -> None:
    seen: dict[tuple[int, int], str] = {}
    for study in built_in_studies():
        declaration = study.declaration()
        looks = arm_styles(declaration)
        for arm in declaration.arms:
            if arm.default and study.name in ("clipping", "depth", "snapshot"):
                pair = looks[arm.name].colour, looks[arm.name].dash
                assert pair not in seen, f"{study.name} {arm.name} looks like {seen.get(pair)}"
                seen[pair] = f"{study.name} {arm.name}"


def test_bp_and_dfa_have_one_colour_each_in_every_study() -> None:
    colours: dict[str, set[int]] = {"BP": set(), "DFA": set()}
    for study in built_in_studies():
        looks = arm_styles(study.declaration())
        for look in looks.values():
            if look.label in ("BP", "DFA", "BP, no block", "DFA, no block"):
                colours[look.label.split(",")[0]].add(look.colour)
    assert colours == {"BP": {0}, "DFA": {1}}


def test_a_look_depends_on_the_declaration_and_not_on_what_was_run() -> None:
    declaration = Declaration("own", arms=(Arm("a"), Arm("b"), Arm("c", label="third", colour="green")))
    alone, all_of_them = arm_styles(declaration, ["c"]), arm_styles(declaration, ["b", "c", "a"])
    assert alone == all_of_them and alone["c"].label == "third" and alone["a"].label == "a"
    assert (alone["c"].hex, alone["c"].dashes) == ("#009E73", ())
    undeclared = arm_styles(Declaration("own"), [f"arm {n}" for n in range(40)])
    pairs = [(look.colour, look.dash) for look in undeclared.values()]
    assert len(set(pairs)) == 40 and all(a[0] != b[0] for a, b in pairwise(pairs)), "neighbours differ in colour"


def test_a_colour_that_does_not_exist_is_named_in_one_sentence() -> None:
    with pytest.raises(KymographError, match=r"the colour of arm a must be one of blue, .*, not 'red'"):
        Arm("a", colour="red")
    with pytest.raises(ValueError, match="must be one of solid"):
        Declaration.from_json({"name": "own", "arms": [{"name": "a", "dash": "wavy"}]})
