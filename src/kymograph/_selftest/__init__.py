"""Tests of the judge: how often it errs in simulated worlds with a known truth, each rate checked against a bound."""
