"""Feedback layer by layer: a network's own forward pass, whose matrix products go back through other weights.

`carrying.py` runs the forward pass and swaps every product with a weight for one of `products.py`, which uses W on the
way forward and B on the way back. `weights.py` knows a weight again in whatever view it is used, `inspection.py` reads
from the graph what each parameter learns from, and `surrogate.py` derives the same gradients a second time.
"""
