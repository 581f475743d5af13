"""The judge judged: how often it is wrong in simulated worlds whose truth is known, each rate held against a bound."""
