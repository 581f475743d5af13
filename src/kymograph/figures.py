"""What the author of a figure imports; see `docs/howto/add-a-figure.md`. It imports matplotlib, and no torch."""

from kymograph._pictures import FIGURES as FIGURES
from kymograph._pictures.canvas import (
    LabFigure as LabFigure, dot as dot, label_panel as label_panel, legends as legends, panel_grid as panel_grid,
    set_log_y as set_log_y, sheet as sheet, stroke as stroke, styled as styled,
)  # fmt: skip
from kymograph._pictures.curves import name_bands as name_bands, seed_curves as seed_curves
from kymograph._pictures.kymograph import kymograph as kymograph
from kymograph._pictures.saving import save_figure as save_figure
from kymograph._pictures.styles import ArmStyle as ArmStyle, COLOURS as COLOURS, arm_styles as arm_styles
from kymograph._runs.declaration import Declaration as Declaration
