"""Statistics over seeds, in plain numpy and scipy: each formula exists once in the whole tree.

``samples``       one number per seed: the check that all are finite, and their moments
``intervals``     Student's t, Welch's, Wilson's, Clopper and Pearson's, the bootstrap's (BCa), the normal one
``t_tests``       Student's test and two one-sided tests (TOST) of equivalence
``variances``     intervals and tests of standard deviations, and which of several is the largest
``sign_flips``    the exact test over seeds, and its map version
``many_samples``  both tests on thousands of samples at once, for simulations
``effects``       Hedges' g, interquartile mean, superiority, AUC, what pairing gained
``power``         power of both tests, and the seeds needed for it
``multiplicity``  Holm's correction
``monte_carlo``   p-values from draws of a null
"""
