"""Who computes the stacks: this process, or several. An engine is one module here, or in a user's package."""
