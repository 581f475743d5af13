"""Running studies and recording any training loop."""
