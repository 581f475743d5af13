"""Which sites of a network are one family over depth, and which match a pattern.

Sites whose names differ only in an index, such as ``model.layers.0.mlp.up_proj`` and ``model.layers.1.mlp.up_proj``,
are one family with depth as its axis. The names are all that a record has of a network, so the families follow from
them alone: a number in a name is an index if its siblings are built alike, and part of the name otherwise (``conv1``
and ``conv2`` of one block are two families).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class Family:
    """Sites whose names differ only in an index, from the first to the deepest."""

    pattern: str
    """The common name, with ``*`` for each index; of a single site, its name."""
    sites: tuple[str, ...]
    depths: tuple[str, ...]
    """The index of each site, such as ``3``, or ``2.0`` for the first block of the second stage."""
    blocks: bool
    """Whether other sites lie inside these: their outputs are the stream that runs through the network."""


@dataclass
class _Node:
    """A module on the way to the sites: its children by name, and whether it is a site itself."""

    children: dict[str, _Node] = field(default_factory=dict)

    def below(self, prefix: str = "") -> set[str]:
        """Returns the names of everything inside, relative to this module."""
        names = set()
        for name, child in self.children.items():
            names |= {prefix + name, *child.below(f"{prefix}{name}.")}
        return names


def families(network: Sequence[str], sites: Sequence[str] | None = None) -> list[Family]:
    """Returns the families of ``sites`` in the order of their first sites; a site without relatives is its own.

    >>> sites = ["embed", "h.0", "h.0.mlp.0", "h.0.mlp.2", "h.1", "h.1.mlp.0", "h.1.mlp.2"]
    >>> [family.pattern for family in families(sites)]
    ['embed', 'h.*', 'h.*.mlp.0', 'h.*.mlp.2']

    Args:
        network: all sites of the network, from whose names it is known which numbers are indices.
        sites: those of them to sort into families; default: all.
    """
    sites = network if sites is None else sites
    root = _Node()
    for site in network:
        node = root
        for word in _words(site):
            node = node.children.setdefault(word, _Node())
    members: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    indices = _indices(root, enclosed=False)
    for site in sites:
        pattern, depth = _pattern(site, indices)
        members.setdefault(pattern, []).append((depth, site))
    containers = {site[:end] for site in network for end in _ends(site)}
    found = []
    for pattern, those in members.items():
        if len(those) == 1:
            pattern = those[0][1]
        those.sort(key=lambda member: member[0])
        ordered = tuple(site for _, site in those)
        depths = tuple(".".join(map(str, depth)) for depth, _ in those)
        inside = sum(site.partition("[")[0] in containers for site in ordered)
        found.append(Family(pattern, ordered, depths, len(those) > 1 and 2 * inside >= len(those)))
    return found


def _words(site: str) -> list[str]:
    """Returns the parts of a site's name; the path into an output, such as ``[0]``, belongs to the last part."""
    name, bracket, path = site.partition("[")
    words = name.split(".")
    return [*words[:-1], words[-1] + bracket + path]


def _ends(site: str) -> list[int]:
    """Returns where the names of the modules that contain a site end in its name."""
    name = site.partition("[")[0]
    return [position for position, letter in enumerate(name) if letter == "."]


def _stem(word: str) -> tuple[str, int] | None:
    """Returns the part of a word before its number, and the number: ``layer3`` is ``layer`` and 3."""
    match = _NUMBERED.fullmatch(word.partition("[")[0])
    return (match[1], int(match[2])) if match else None


def _indices(node: _Node, enclosed: bool, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Returns the paths whose last number is an index rather than part of the name.

    That is so where siblings contain alike parts, which makes them blocks; and where numbered siblings contain nothing
    and no block is around them, which makes them the layers of a plain stack.
    """
    siblings: dict[str, list[str]] = {}
    for word in node.children:
        if (numbered := _stem(word)) is not None:
            siblings.setdefault(numbered[0] + "[" + word.partition("[")[2], []).append(word)
    found = set()
    for stem, words in siblings.items():
        contents = {word: node.children[word].below() for word in words}
        alike = [word for word in words if any(_are_alike(contents[word], contents[other]) for other in words
                                              if other != word)]  # fmt: skip
        plain = [word for word in words if not contents[word]]
        if enclosed:
            plain = [word for word in plain if alike]
            if not stem.startswith("[") and len(alike) < 3:
                alike = []  # attn1 and attn2 of one block
        elif len(plain) < 2 and not alike:
            plain = []
        found |= {(*path, word) for word in (*alike, *plain)}
    for word, child in node.children.items():
        found |= _indices(child, enclosed or (*path, word) in found, (*path, word))
    return found


def _are_alike(one: set[str], other: set[str]) -> bool:
    """Returns whether two modules share at least half of what the smaller one contains."""
    return bool(one and other) and 2 * len(one & other) >= min(len(one), len(other))


def _pattern(site: str, indices: Collection[tuple[str, ...]]) -> tuple[str, tuple[int, ...]]:
    """Returns a site's name with ``*`` for its indices, and the indices."""
    words, shown, depth = _words(site), [], []
    for position, word in enumerate(words):
        numbered = _stem(word)
        if numbered is not None and tuple(words[: position + 1]) in indices:
            path = word.partition("[")
            shown.append(f"{numbered[0]}*{path[1]}{path[2]}")
            depth.append(numbered[1])
        else:
            shown.append(word)
    return ".".join(shown), tuple(depth)


def counted(family: Family) -> str:
    """Returns the name of a family, with the number of its sites if there are several."""
    return family.pattern if len(family.sites) == 1 else f"{family.pattern} ({len(family.sites)} sites)"


def matches(site: str, pattern: str) -> bool:
    """Returns whether a site's name matches a pattern: ``*`` is one part of a name or a piece of it, ``**`` several.

    ``?`` is one character, and ``[0-3]`` at the start of a part one of several; after a name it is the path into an
    output, as in ``lstm[0]``.

    >>> [[name for name in ("mlp", "h.0", "h.0.mlp", "h.0.mlp.up") if matches(name, pattern)]
    ...  for pattern in ("h.*", "h.**", "**.mlp", "h.[0-3].m*")]
    [['h.0'], ['h.0', 'h.0.mlp', 'h.0.mlp.up'], ['mlp', 'h.0.mlp'], ['h.0.mlp']]
    """
    return _expression(pattern).fullmatch(site) is not None


_WILDCARD = re.compile(r"\*|\?|^\[!?(?:\w|\d-\d)+\]")


@functools.lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    """Returns a pattern as a regular expression; ``**`` is any number of parts, and at the end at least one."""
    *parts, last = pattern.split(".")
    before = "".join(r"(?:.+\.)?" if part == "**" else _part(part) + r"\." for part in parts)
    return re.compile(before + (".+" if last == "**" else _part(last)))


def _part(part: str) -> str:
    """Returns the regular expression of one part of a pattern."""
    found, end = [], 0
    for wildcard in _WILDCARD.finditer(part):
        found.append(re.escape(part[end : wildcard.start()]))
        found.append({"*": "[^.]*", "?": "[^.]"}.get(wildcard[0]) or _set(wildcard[0]))
        end = wildcard.end()
    return "".join([*found, re.escape(part[end:])])


def _set(text: str) -> str:
    """Returns ``[0-3]`` or ``[!a]`` as a regular expression; a range that runs backwards is matched literally."""
    try:
        return re.compile(text.replace("[!", "[^")).pattern
    except re.error:
        return re.escape(text)
