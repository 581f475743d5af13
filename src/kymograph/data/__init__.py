"""Tasks: tensors, and what is known about them before any training."""
