"""What the author of a report's panel imports; see `docs/howto/add-a-report-panel.md`."""

from kymograph._pictures.report.charts import (
    Chart as Chart, ChartRequest as ChartRequest, Key as Key, Panel as Panel, table_data as table_data,
)  # fmt: skip
from kymograph._pictures.report.sections import PANELS as PANELS
from kymograph._pictures.report.svg import (
    Frame as Frame, Scale as Scale, axes as axes, element as element, labels as labels, number as number,
    picture as picture, scale_over as scale_over,
)  # fmt: skip
