"""Feedback layer by layer: a network's own forward pass, whose matrix products use other weights in the backward pass.

`carrying.py` runs the forward pass and swaps every product with a weight for one from `products.py`, which uses W
forward and B backward. `weights.py` recognises a weight in any view of it, `inspection.py` reads from the graph what
each parameter learns from, and `surrogate.py` derives the same gradients a second time.
"""
