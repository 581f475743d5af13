"""The training loop, and everything between a rule's gradients and the weights."""
