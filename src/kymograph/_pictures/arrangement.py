"""Which sites of a network are drawn in which map: the stream through its blocks, a strip per family, the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kymograph._errors import KymographError, did_you_mean
from kymograph._probes.site_families import counted, families, matches

MOST_NAMES = 16
"""Up to this many sites are drawn in one map, each with its name."""


@dataclass(frozen=True)
class DepthMap:
    """Sites that are drawn in one map with one colour scale, one row each."""

    title: str
    """A short name, unique among the maps of an arrangement; empty for a map of all sites."""
    pattern: str
    """The sites' common name, with ``*`` for each index; empty if they have none."""
    sites: tuple[str, ...]
    labels: tuple[str, ...]
    """What each row is called on the axis: its depth in the family, or its name."""
    large: bool

    def ticks(self, most: int) -> list[int]:
        """Returns at most ``most`` rows to label, evenly spaced from the first: labels name sites that exist."""
        return list(range(0, len(self.sites), max(1, -(-len(self.sites) // most))))


@dataclass(frozen=True)
class Arrangement:
    """Arms that are drawn with the same rows: their maps, and the sites that have no value in any of them."""

    arms: tuple[str, ...]
    maps: tuple[DepthMap, ...]
    left_out: tuple[str, ...]
    """Names of the sites that are in no map, families as patterns with the number of their sites."""


def arrange(
    sites_of: Mapping[str, Sequence[str]],
    without_value: Collection[str] = (),
    *,
    family: str | None = None,
    all_sites: bool = False,
) -> list[Arrangement]:
    """Returns which sites are drawn in which maps, given the sites of every arm in the order of its network.

    Arms share an arrangement, where their rows have the same names, if they share at least half of their sites; an arm
    that does not share as much with the others has its own.

    Args:
        sites_of: the sites of every arm.
        without_value: sites that are left out, such as modules that never ran.
        family: draw only the sites and families that match this name or pattern, large.
        all_sites: draw one map of all sites.
    """
    found = []
    for arms in _sharing(sites_of):
        every = merged([sites_of[arm] for arm in arms])
        drawn = [site for site in every if site not in without_value]
        left_out = [counted(some) for some in families(every, [site for site in every if site in without_value])]
        maps = _chosen(drawn, family) if family is not None else _maps(drawn, all_sites)
        if maps:
            found.append(Arrangement(tuple(arms), tuple(maps), tuple(left_out)))
    if not found and family is not None:
        drawn = merged(list(sites_of.values()))
        names = dict.fromkeys(name for some in families(drawn) for name in (some.pattern, *some.sites))
        raise KymographError(f"no family or site matches {family!r}{did_you_mean(family, names)}")
    return found


def _sharing(sites_of: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Returns the arms in groups whose members all share at least half of their sites with the first."""
    groups: list[list[str]] = []
    for arm, sites in sites_of.items():
        for group in groups:
            here, there = set(sites), set(sites_of[group[0]])
            if 2 * len(here & there) >= len(here | there):
                group.append(arm)
                break
        else:
            groups.append([arm])
    return groups


def merged(orders: Sequence[Sequence[str]]) -> list[str]:
    """Returns all sites of several networks; one that only a later network has follows the site before it there.

    >>> merged([["a", "b", "d"], ["a", "c", "d", "e"]])
    ['a', 'c', 'b', 'd', 'e']
    """
    every: list[str] = []
    known: set[str] = set()
    for sites in dict.fromkeys(map(tuple, orders)):
        position = 0
        for site in sites:
            if site not in known:
                every.insert(position, site)
                known.add(site)
                position += 1
            else:
                position = every.index(site) + 1
    return every


def _maps(sites: Sequence[str], all_sites: bool) -> list[DepthMap]:
    """Returns the maps of a network: the stream large, a strip per family, and the sites without relatives."""
    if not sites:
        return []
    found = families(sites)
    repeated = [family for family in found if len(family.sites) > 1]
    single = [site for family in found if len(family.sites) == 1 for site in family.sites]
    if all_sites or len(sites) <= MOST_NAMES or not repeated or (len(repeated) == 1 and not single):
        pattern = found[0].pattern if len(found) == 1 else ""
        return [DepthMap("", pattern, tuple(sites), tuple(sites), large=True)]
    streams = [family for family in repeated if family.blocks]
    streams = [family for family in streams
               if not any(family.pattern.startswith(outer.pattern + ".") for outer in streams)]  # fmt: skip
    titles = _titles([family.pattern for family in repeated])
    maps = [
        DepthMap(titles[family.pattern], family.pattern, family.sites, family.depths, large=family in streams)
        for family in (*streams, *(family for family in repeated if family not in streams))
    ]
    if single:
        maps.append(DepthMap("single layers", "", tuple(single), tuple(single), large=False))
    return maps


def _chosen(sites: Sequence[str], wanted: str) -> list[DepthMap]:
    """Returns the maps of the families of which the pattern or a site matches ``wanted``, with the matching sites."""
    chosen = []
    for family in families(sites):
        whole = wanted == family.pattern or matches(family.pattern, wanted)
        rows = [row for row, site in enumerate(family.sites) if whole or matches(site, wanted)]
        if rows:
            chosen.append((family, rows))
    titles = _titles([family.pattern for family, _ in chosen])
    return [
        DepthMap(
            titles[family.pattern],
            family.pattern,
            tuple(family.sites[row] for row in rows),
            tuple((family.depths if len(family.sites) > 1 else family.sites)[row] for row in rows),
            large=True,
        )
        for family, rows in chosen
    ]


def _titles(patterns: Sequence[str]) -> dict[str, str]:
    """Returns a short name for every pattern: what follows its last index, if all are parts of the same blocks.

    >>> _titles(["layers.*", "layers.*.attn.q", "layers.*.mlp.fc"])
    {'layers.*': 'layers.*', 'layers.*.attn.q': 'attn.q', 'layers.*.mlp.fc': 'mlp.fc'}
    >>> _titles(["trunk.*.0", "trunk.*.1"])  # a number is no name
    {'trunk.*.0': 'trunk.*.0', 'trunk.*.1': 'trunk.*.1'}
    >>> _titles(["down*.conv", "up*.conv", "up*.norm"])  # the short names would not tell which blocks they are in
    {'down*.conv': 'down*.conv', 'up*.conv': 'up*.conv', 'up*.norm': 'up*.norm'}
    """
    parts = {}
    for pattern in patterns:
        words = pattern.split(".")
        last = max((position for position, word in enumerate(words) if "*" in word), default=-1)
        parts[pattern] = ".".join(words[: last + 1]), ".".join(words[last + 1 :])
    blocks = {block for block, part in parts.values() if part}
    named = len(blocks) == 1 and all(any(map(str.isalpha, part)) for _, part in parts.values() if part)
    return {pattern: part if part and named else pattern for pattern, (_, part) in parts.items()}
