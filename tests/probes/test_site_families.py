"""Families of sites: which numbers in names are indices, for the names that common networks give their modules."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._probes.site_families import families, matches

LLAMA = ["", ".self_attn.q_proj", ".mlp.up_proj", ".input_layernorm"]
RESNET = ["", ".conv1", ".bn1", ".conv2"]
NETWORKS = {
    "Llama": (
        ["model.embed_tokens", *(f"model.layers.{i}{part}" for i in range(12) for part in LLAMA), "lm_head"],
        {"model.embed_tokens": 1, "model.layers.*": 12, "model.layers.*.self_attn.q_proj": 12,
         "model.layers.*.mlp.up_proj": 12, "model.layers.*.input_layernorm": 12, "lm_head": 1},
    ),
    "ResNet": (
        ["conv1", *(f"layer{s}.{b}{part}" for s in (1, 2, 3) for b in (0, 1) for part in RESNET), "layer2.0.shortcut.0",
         "layer2.0.shortcut.1", "layer3.0.shortcut.0", "layer3.0.shortcut.1", "linear"],
        {"conv1": 1, "layer*.*": 6, "layer*.*.conv1": 6, "layer*.*.bn1": 6, "layer*.*.conv2": 6,
         "layer*.*.shortcut.0": 2, "layer*.*.shortcut.1": 2, "linear": 1},
    ),
    "DenseNet": (
        [f"features.denseblock{k}.denselayer{b}.{part}" for k in (1, 2) for b in (1, 2, 3)
         for part in ("norm1", "conv1")],
        {"features.denseblock*.denselayer*.norm1": 6, "features.denseblock*.denselayer*.conv1": 6},
    ),
    "U-Net": (
        [f"down{k}.maxpool_conv.{part}" for k in (1, 2) for part in ("0", "1.double_conv.0", "1.double_conv.1")]
        + [f"up{k}.{part}" for k in (1, 2) for part in ("up", "conv.double_conv.0")],
        {"down*.maxpool_conv.0": 2, "down*.maxpool_conv.1.double_conv.0": 2, "down*.maxpool_conv.1.double_conv.1": 2,
         "up*.up": 2, "up*.conv.double_conv.0": 2},
    ),
    "two sorts of sub-blocks": (
        [f"layers.{i}.{part}" for i in (0, 1) for part in ("0.norm", "0.to_qkv", "1.net.0", "1.net.3")],
        {"layers.*.0.norm": 2, "layers.*.0.to_qkv": 2, "layers.*.1.net.0": 2, "layers.*.1.net.3": 2},
    ),
    "two attentions in a block": (
        [f"blocks.{i}.attn{k}.to_q" for i in (0, 1) for k in (1, 2)],
        {"blocks.*.attn1.to_q": 2, "blocks.*.attn2.to_q": 2},
    ),
    "plain stack": (["0", "1", "2", "10"], {"*": 4}),
    "MLP with names": (["fc1", "fc2", "act"], {"fc*": 2, "act": 1}),
    "LSTM": (["embed", "lstm[0]", "lstm[1][0]"], {"embed": 1, "lstm[0]": 1, "lstm[1][0]": 1}),
    "blocks that return tuples": (
        [f"h.{i}{part}" for i in (0, 1) for part in ("[0]", "[1]", ".attn")], {"h.*[0]": 2, "h.*[1]": 2, "h.*.attn": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_sites_that_differ_only_in_an_index_are_one_family(name: str) -> None:
    sites, expected = NETWORKS[name]
    found = families(sites)
    assert {family.pattern: len(family.sites) for family in found} == expected
    assert all(matches(site, family.pattern) for family in found for site in family.sites)


def test_the_outputs_of_blocks_are_recognised_and_depth_counts_in_numbers_rather_than_letters() -> None:
    sites = NETWORKS["Llama"][0]
    by_pattern = {family.pattern: family for family in families(sites)}
    assert [pattern for pattern, family in by_pattern.items() if family.blocks] == ["model.layers.*"]
    assert by_pattern["model.layers.*"].depths == tuple(map(str, range(12)))
    assert [family.pattern for family in families(NETWORKS["ResNet"][0]) if family.blocks] == ["layer*.*"]
    assert {family.pattern for family in families(NETWORKS["blocks that return tuples"][0]) if family.blocks} == {
        "h.*[0]", "h.*[1]"
    }  # fmt: skip


def test_some_sites_are_sorted_by_the_names_of_the_whole_network() -> None:
    sites = NETWORKS["Llama"][0]
    assert [
        family.pattern for family in families(sites, ["model.layers.3.mlp.up_proj", "model.layers.4.mlp.up_proj"])
    ] == ["model.layers.*.mlp.up_proj"]


WORD = st.text(string.ascii_lowercase + string.digits + "_", min_size=1, max_size=4)
SITES = st.lists(st.lists(WORD, min_size=1, max_size=4).map(".".join), unique=True, max_size=30)


@given(SITES)
def test_every_site_is_in_one_family_and_matches_its_pattern(sites: list[str]) -> None:
    found = families(sites)
    assert sorted(site for family in found for site in family.sites) == sorted(sites)
    for family in found:
        assert all(matches(site, family.pattern) for site in family.sites)
        assert len(family.depths) == len(family.sites)


@given(SITES)
def test_a_name_matches_itself_and_everything_matches_two_stars(sites: list[str]) -> None:
    assert all(matches(site, site) and matches(site, "**") for site in sites)
    assert all(matches(site, "*") == ("." not in site) for site in sites)


@given(st.text("h.*?[]!-09a(\\\\+", max_size=12))
def test_no_pattern_is_an_error(pattern: str) -> None:
    matches("h.0.mlp", pattern)
    assert matches("h.[9-0]", "h.[9-0]")
