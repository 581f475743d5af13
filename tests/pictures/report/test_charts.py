from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kymograph._pictures.report_page.charts import ARMS_PER_PANEL, ArmGroup, group_arms

ARMS = st.lists(st.text("abc", min_size=1), unique=True, max_size=30)


@given(ARMS, st.dictionaries(st.text("abc", min_size=1), st.sampled_from(["", "left", "right"])))
def test_every_arm_is_in_one_panel_with_arms_of_its_declared_panel_only(arms: list[str], declared: dict) -> None:
    groups = group_arms(arms, declared)
    assert sorted(arm for group in groups for arm in group.arms) == sorted(arms)
    for group in groups:
        assert 1 <= len(group.arms) <= ARMS_PER_PANEL
        assert len({declared.get(arm, "") for arm in group.arms}) == 1
        assert list(group.arms) == [arm for arm in arms if arm in group.arms], "in the order of the arms"


def test_panels_are_titled_by_their_declared_name_or_counted() -> None:
    many = [str(index) for index in range(14)]
    assert [len(group.arms) for group in group_arms(many)] == [5, 5, 4]
    assert [group.title for group in group_arms(many)] == [
        "arms 1 to 5 of 14",
        "arms 6 to 10 of 14",
        "arms 11 to 14 of 14",
    ]
    assert group_arms(["x", "y"]) == [ArmGroup("", ("x", "y"))] and group_arms([]) == []
    assert group_arms(["x", "z", "y"], {"x": "pair", "y": "pair"}) == [
        ArmGroup("pair", ("x", "y")),
        ArmGroup("other arms", ("z",)),
    ]
