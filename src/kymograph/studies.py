"""What the author of a study imports besides the names of `kymograph` itself; see `docs/howto/add-a-study.md`."""

from kymograph._runs.declaration import NOT_NEGATIVE as NOT_NEGATIVE, OVER_DEPTH as OVER_DEPTH
from kymograph._studies.loading import STUDIES as STUDIES
from kymograph._studies.settings import above_zero as above_zero, at_least as at_least
from kymograph._studies.study import SEEDED as SEEDED, StudyFigure as StudyFigure
from kymograph._sweep.compute import choose_device as choose_device
