"""The verbs of the command line, one module each: ``PART`` (its usage line), its options, ``main(words)``."""
