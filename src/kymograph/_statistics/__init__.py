"""Statistics over seeds, in plain numpy and scipy: each formula exists once in the whole tree.

``intervals``  samples of one number per seed, their moments; Student's interval, Welch's, Wilson's, Clopper and
               Pearson's, the bootstrap's (BCa), the normal one
``p_values``   Student's test, the exact sign-flip test and its map version, draws of a null, Holm's correction
``effects``    Hedges' g, interquartile mean, superiority, AUC, what pairing gained
``variances``  intervals and tests of standard deviations, and which of several is the largest
``power``      power of both tests, the seeds needed for it, and both tests on thousands of samples at once
"""
