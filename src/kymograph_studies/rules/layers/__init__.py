"""Feedback layer by layer: a network's own forward pass, whose matrix products use other weights in the backward pass.

`carrying` runs the forward pass and swaps every product with a weight for one that uses W forward and B backward.
`weights` recognises a weight in any view of it, and reads from the graph what each parameter learns from.
"""
