"""What the author of a figure imports; `docs/howto/add-a-figure.md` adds one. It loads matplotlib, and no torch.

A figure of your own, drawn from stored runs, with the colours that its arms have everywhere:

    >>> from kymograph.figures import *
    >>> @styled
    ... def draw(store: ky.Store, declaration: Declaration) -> LabFigure:
    ...     styles, loss = arm_styles(declaration, store.arms), store.series("loss")
    ...     figure = sheet((3.2, 2.4), columns=2)
    ...     every_seed, last = figure.subplots(1, 2)
    ...     for place, (arm, style) in enumerate(styles.items()):
    ...         values = loss.sel(arm=arm).values  # (seed, step)
    ...         seed_curves(figure, every_seed, "loss", style.label, np.array(loss.labels["step"]), values,
    ...                     store.seeds, style.hex, log=True)
    ...         last.plot([place] * len(values), values[:, -1], "o", ms=dot(), lw=stroke(), color=style.hex)
    ...     set_log_y(every_seed)
    ...     label_panel(every_seed, "Loss", "step", "cross-entropy")
    ...     name_bands([every_seed])
    ...     legends(figure, [every_seed])
    ...     return figure
    >>> store = ky.Store.open("runs")
    >>> drawn = draw(store, store.declarations["warmup"], style="paper")
    >>> [path.name for path in save_figure(drawn, Path("figures"), "loss", formats=["png"])]
    ['loss.png', 'loss.csv']

Several panels, a kymograph of a series along depth, the palette, and the registry of kinds of figures:

    >>> figure, panels = panel_grid(4, (2.0, 1.5), most_columns=2, least=1.5)
    >>> len(panels), ArmStyle("Adam", colour=0, dash=0).hex == COLOURS[0], "curves" in FIGURES.names()
    (4, True, True)
    >>> isinstance(kymograph(store.series("grad_norm"), "Gradients", "norm"), LabFigure)
    True
"""

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
