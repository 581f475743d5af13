"""Which sites are drawn in which map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._errors import KymographError
from kymograph._pictures.arrangement import MOST_NAMES, arrange, merged

PARTS = ["", ".self_attn.q_proj", ".mlp.up_proj", ".mlp.drop"]
LLAMA = ["model.embed", *(f"model.layers.{i}{part}" for i in range(6) for part in PARTS), "model.norm", "lm_head"]
MLP = [str(index) for index in range(30)]


def test_a_transformer_has_its_stream_large_a_strip_per_family_and_a_list_of_the_rest() -> None:
    drop = [site for site in LLAMA if site.endswith("drop")]
    (only,) = arrange({"plain": LLAMA, "other": LLAMA}, drop)
    assert only.arms == ("plain", "other")
    assert [(each.title, each.large, len(each.sites)) for each in only.maps] == [
        ("model.layers.*", True, 6),
        ("self_attn.q_proj", False, 6),
        ("mlp.up_proj", False, 6),
        ("single layers", False, 3),
    ]
    assert only.maps[1].labels == tuple("012345") and only.maps[-1].labels == ("model.embed", "model.norm", "lm_head")
    assert only.left_out == ("model.layers.*.mlp.drop (6 sites)",)


def test_few_sites_a_plain_stack_and_all_sites_on_request_are_one_map() -> None:
    for sites, options in ((LLAMA[:MOST_NAMES], {}), (MLP, {}), (LLAMA, {"all_sites": True})):
        (only,) = arrange({"a": sites}, **options)
        (single,) = only.maps
        assert single.sites == tuple(sites) == single.labels and single.large


def test_a_family_is_chosen_by_its_pattern_or_by_its_sites() -> None:
    chosen = {"a": LLAMA}
    (only,) = arrange(chosen, family="model.layers.*.mlp.up_proj")
    assert [each.sites for each in only.maps] == [tuple(f"model.layers.{i}.mlp.up_proj" for i in range(6))]
    assert only.maps[0].large
    (only,) = arrange(chosen, family="model.layers.[23].**")
    assert [each.labels for each in only.maps] == [("2", "3")] * 3
    with pytest.raises(KymographError, match=r"did you mean 'model\.layers\.\*\.mlp\.up_proj'"):
        arrange(chosen, family="model.layers.*.mlp.up_prj")


def test_arms_that_share_less_than_half_of_their_sites_have_rows_of_their_own() -> None:
    found = arrange({"llama": LLAMA, "mlp": MLP, "shorter": LLAMA[:-4]})
    assert [each.arms for each in found] == [("llama", "shorter"), ("mlp",)]
    assert found[0].maps == arrange({"llama": LLAMA})[0].maps  # nothing new in the shorter one


def test_labels_of_rows_name_existing_sites() -> None:
    (only,) = arrange({"a": [f"layers.{index}.fc" for index in range(32)]})
    (single,) = only.maps
    assert max(single.ticks(6)) < 32 and len(single.ticks(6)) <= 6 and single.ticks(64) == list(range(32))


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4))
def test_merging_keeps_every_site_once_and_the_order_of_the_first_network(orders: list[list[str]]) -> None:
    every = merged(orders)
    assert sorted(every) == sorted({site for order in orders for site in order})
    if orders:
        assert [site for site in every if site in orders[0]] == orders[0]
