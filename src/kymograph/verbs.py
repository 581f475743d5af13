"""What the author of a verb of the command line imports; `docs/howto/add-a-verb.md` adds one.

>>> from kymograph.verbs import *
>>> @dataclass(frozen=True)
... class Options:
...     '''The runs that took longest.'''
...     directory: Annotated[str, positional(), shown("DIR")]
...     count: Annotated[int, shown("N")] = 5
...     form: Annotated[str, choice(Choices("form", lambda: ["text", "json"]))] = "text"
...     select: SelectOptions = field(default_factory=SelectOptions)
>>> options = parse(Options, ["runs", "--count", "3"], "kymograph slowest")
>>> at_least("count", options.count, 1)
>>> options.directory, options.count, options.form
('runs', 3, 'text')
>>> try:
...     run_verb(["jugde", "runs"])
... except UsageError as error:
...     print(error)
there is no verb 'jugde'; did you mean 'judge'?
>>> "judge" in VERBS.names()
True
"""

from kymograph._cli.arguments import (
    Choices as Choices, SelectOptions as SelectOptions, at_least as at_least, choice as choice, parse as parse,
    positional as positional, shown as shown,
)  # fmt: skip
from kymograph._cli.main import VERBS as VERBS, run_verb as run_verb
from kymograph._errors import UsageError as UsageError
