"""Engines compute stacks, in this process or in others. An engine is one module here, or in a user's package."""
