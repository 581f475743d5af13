"""Statistics over seeds, in plain numpy and scipy: each formula exists once in the whole tree.

``samples``       one number per seed: the check that all are finite, and their moments
``intervals``     Student's t, Wilson's, the bootstrap's (BCa), the normal one
``t_tests``       Student's test and two one-sided tests (TOST) of equivalence
``sign_flips``    the exact test over seeds, and its map version
``effects``       Hedges' g, interquartile mean, superiority, AUC
``power``         seeds needed for a given power
``multiplicity``  Holm's correction
``monte_carlo``   p-values from draws of a null
"""
