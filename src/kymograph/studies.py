"""What the author of a study imports besides the names of `kymograph`; `docs/howto/add-a-study.md` adds one.

    >>> from kymograph.studies import *
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     lr: float = 0.1
    ...     steps: int = 100
    ...     def __post_init__(self) -> None:
    ...         above_zero("lr", self.lr)
    ...         at_least("steps", self.steps, 1)
    >>> Config(lr=-1.0)
    Traceback (most recent call last):
    kymograph._errors.UsageError: lr must be above 0, not -1.0

`SEEDED` is the methods text of a study whose random numbers all come from `kymograph.generator`, `NOT_NEGATIVE` the
bounds of a norm or a loss, and `OVER_DEPTH` the forms of a series with a value per layer; `choose_device` resolves
``auto``, and `STUDIES` is the registry:

    >>> NOT_NEGATIVE, OVER_DEPTH, choose_device("cpu"), "paired by seed" in SEEDED, "depth" in STUDIES.names()
    ((0.0, inf), ('kymograph', 'profile'), 'cpu', True, True)
    >>> StudyFigure(lambda store: None, "the profile over depth").about
    'the profile over depth'
"""

from kymograph._runs.declaration import NOT_NEGATIVE as NOT_NEGATIVE, OVER_DEPTH as OVER_DEPTH
from kymograph._studies.loading import STUDIES as STUDIES
from kymograph._studies.settings import above_zero as above_zero, at_least as at_least
from kymograph._studies.study import SEEDED as SEEDED, StudyFigure as StudyFigure
from kymograph._sweep.compute import choose_device as choose_device
