"""What the author of a report's panel imports; `docs/howto/add-a-report-panel.md` adds one.

>>> from kymograph.panels import *
>>> def draw(request: ChartRequest) -> Chart:
...     array = request.curves()  # axes (arm, seed, step)
...     arms, last = array.labels["arm"], array.values[:, :, -1]
...     frame = Frame()
...     left, top, width, height = frame.box
...     x = Scale(-0.5, len(arms) - 0.5, left, left + width)
...     y = scale_over(last, top + height, top, log=False)
...     dots = [element("circle", cx=x.at(place), cy=y.at(value), r=3)
...             for place, row in enumerate(last) for value in row]
...     drawn = picture(frame, "last values", axes(frame, x, y, "arm", request.display.unit, arms), *dots)
...     keys = tuple(Key(arm, colour) for colour, arm in enumerate(arms))
...     rows = [(arm, float(value)) for arm, row in zip(arms, last) for value in row]
...     return Chart(request.id, "Last values", (Panel("", drawn, keys),), "A dot per seed.",
...                  table_data(("arm", "value"), rows))
>>> chart = draw(ChartRequest("last", ky.Store.open("runs"), ky.SeriesDisplay("loss", "Loss", "nats")))
>>> str(chart.panels[0].picture).count("<circle"), len(chart.data["rows"])
(20, 20)
>>> labels([0.001, 0.01]), number(0.123456), "curves" in PANELS.names()
(['0.001', '0.01'], '0.1235', True)
"""

from kymograph._pictures.report_page.charts import (
    Chart as Chart, ChartRequest as ChartRequest, Key as Key, Panel as Panel, table_data as table_data,
)  # fmt: skip
from kymograph._pictures.report_page.sections import PANELS as PANELS
from kymograph._pictures.report_page.svg import (
    Frame as Frame, Scale as Scale, axes as axes, element as element, labels as labels, number as number,
    picture as picture, scale_over as scale_over,
)  # fmt: skip
