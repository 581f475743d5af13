"""How parts are found: a kind of part of your own is a `Registry`; `docs/howto/index.md` tells how packages add to it.

>>> from kymograph.parts import Part, Registry
>>> FORMATS = Registry("kymograph.formats", "kymograph._runs.formats", "write")
>>> csv: Part = FORMATS.part("csv")  # read from the source text; nothing is imported
>>> csv.name, csv.built_in, callable(FORMATS.load("csv"))
('csv', True, True)
"""

from kymograph._registry import Part as Part, Registry as Registry
