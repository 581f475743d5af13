"""The one training loop and what happens to gradients between a rule and the weights."""
