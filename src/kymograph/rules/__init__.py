"""How parameters get their update direction."""
