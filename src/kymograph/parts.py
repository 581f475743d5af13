"""How parts are found: a kind of part of your own is a `Registry`; see `docs/howto/index.md`."""

from kymograph._registry import Part as Part, Registry as Registry
