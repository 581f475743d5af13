"""What the author of a verb of the command line imports; see `docs/howto/add-a-verb.md`."""

from kymograph._cli.arguments import (
    Choices as Choices, SelectOptions as SelectOptions, at_least as at_least, choice as choice, parse as parse,
    positional as positional, shown as shown,
)  # fmt: skip
from kymograph._cli.main import VERBS as VERBS, run_verb as run_verb
from kymograph._errors import UsageError as UsageError
