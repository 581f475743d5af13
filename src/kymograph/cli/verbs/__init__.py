"""The verbs of the command line, one module each: ``PART`` (its line of the usage), its options, ``main(words)``."""
