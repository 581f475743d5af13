"""Networks with a leading replica axis; one replica is the special case."""
