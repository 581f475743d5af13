"""The paper figures of the snapshot study, and its kymographs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kymograph import KymographError, Store
from kymograph._pictures.curves import name_band
from kymograph._pictures.scales import Spread, choose_spread
from kymograph.figures import COLOURS, LabFigure, kymograph, label_panel, legends, seed_curves, set_log_y, sheet, styled
from kymograph.studies import StudyFigure
from kymograph_studies.labels import STREAM
from kymograph_studies.scripts.logs import Trajectory, from_store, one_setup, read_logs
from kymograph_studies.snapshot import Snapshot

_COLOUR = {"BP": COLOURS[0], "DFA": COLOURS[1]}  # blue and red, as published, in colour-blind-safe shades
_BLOCK = 2  # the published gradient is that at the third point of the stream


@styled
def resmlp(store: Store, spread: str | None = None) -> LabFigure:
    """Draws ‖h_L‖ and ‖g_2‖ over epochs for the residual MLP, with and without terminal LayerNorm."""
    return draw_resmlp(from_store(store, "resmlp"), spread)


@styled
def vit(store: Store, spread: str | None = None) -> LabFigure:
    """Draws ‖h_L‖ and ‖g_2‖ over epochs for ViT-Mini."""
    return draw_vit(from_store(store, "vit"), spread)


@styled
def draw_resmlp(trajectories: Sequence[Trajectory], spread: str | None = None) -> LabFigure:
    """Draws two rows, with and without terminal LayerNorm: the stream's last norm and the gradient at block 2.

    ``spread`` selects what the bands show (`kymograph._pictures.scales`), as stated in the legends.
    """
    shown = choose_spread(spread)
    _need(trajectories, "resmlp")
    figure = sheet((5, 3.5), rows=2, columns=2)
    grid = figure.subplots(2, 2, sharex=True)
    for row, out_ln in enumerate((True, False)):
        title = f"ResMLP {'with' if out_ln else 'without'} terminal LayerNorm"
        _panels(figure, grid[row], [t for t in trajectories if t.out_ln == out_ln], title, shown)
    if figure.style.fixed:  # the rows share their epochs
        for axes in grid[0]:
            axes.set_xlabel("")
    legends(figure, grid.flat)
    figure.entitle("Residual stream and gradient over training")
    return figure


@styled
def draw_vit(trajectories: Sequence[Trajectory], spread: str | None = None) -> LabFigure:
    """Draws one row: the last norm of the class token and the gradient at block 2; ``spread`` as in `draw_resmlp`."""
    shown = choose_spread(spread)
    _need(trajectories, "vit")
    with_and_without = {trajectory.out_ln for trajectory in trajectories}
    if len(with_and_without) > 1:
        raise KymographError("these runs are with and without terminal LayerNorm, but the figure of vit has one row")
    figure = sheet((5.5, 4), columns=2)
    grid = figure.subplots(1, 2)
    title = f"ViT-Mini, {'' if with_and_without == {True} else 'no '}terminal LayerNorm"
    _panels(figure, grid, trajectories, title, shown, "^{cls}")
    legends(figure, grid)
    return figure


def resmlp_from_logs(paths: Sequence[str], spread: str | None = None, **style: str | None) -> LabFigure:
    """Draws the figure of the residual MLP from logs of the research script."""
    return draw_resmlp(read_logs(paths), spread, **style)


def vit_from_logs(paths: Sequence[str], spread: str | None = None, **style: str | None) -> LabFigure:
    """Draws the figure of ViT-Mini from logs of the research script."""
    return draw_vit(read_logs(paths), spread, **style)


def _need(trajectories: Sequence[Trajectory], model: str) -> None:
    """Raises unless the trajectories are BP's and DFA's of one set-up of ``model``, deep enough to have h_2."""
    foreign = next((trajectory for trajectory in trajectories if trajectory.model != model), None)
    if foreign is not None:
        raise KymographError(f"{foreign.source} is of the network {foreign.model}, but this figure is of {model}")
    missing = {"BP", "DFA"} - {trajectory.rule for trajectory in trajectories}
    if missing:
        names = " and ".join(f"{model}/{rule.lower()}" for rule in sorted(missing))
        raise KymographError(f"this figure needs runs of {names}; make them with `kymograph run snapshot --arms ...`")
    shallow = next((trajectory for trajectory in trajectories if trajectory.gradient.shape[1] <= _BLOCK), None)
    if shallow is not None:
        raise KymographError(f"{shallow.source} has no h_{_BLOCK}, at which this figure shows the gradient")
    one_setup(trajectories)


def _panels(
    figure: LabFigure,
    pair: np.ndarray,
    trajectories: Sequence[Trajectory],
    title: str,
    spread: Spread,
    mark: str = "",
) -> None:
    labels = {
        "h_L": rf"$\|h_L{mark}\|_2$ (median over images)",
        "g_2": r"$\|\nabla_{h_2} L\|_2$ (median over images, mean loss)",
    }
    for axes, (name, label) in zip(pair, labels.items(), strict=True):
        for rule in ("BP", "DFA"):
            of_rule = [t for t in trajectories if t.rule == rule]
            if not of_rule:
                axes.plot([], [], color=_COLOUR[rule], label=f"{rule} (no run)")
                continue
            epochs = np.unique(np.concatenate([t.epochs for t in of_rule]))
            values = np.full((len(of_rule), len(epochs)), np.nan)
            for row, trajectory in enumerate(of_rule):
                column = trajectory.hidden[:, -1] if name == "h_L" else trajectory.gradient[:, _BLOCK]
                values[row, np.searchsorted(epochs, trajectory.epochs)] = column
            seeds = tuple(t.seed for t in of_rule)
            seed_curves(
                figure, axes, f"{title}: {name}", rule, epochs, values, seeds, _COLOUR[rule], log=True, spread=spread
            )
        name_band(axes, spread, log=True)
        set_log_y(axes)
        axes.xaxis.get_major_locator().set_params(integer=True)  # nothing is measured within an epoch
        label_panel(axes, title, "epoch", label)


@styled
def stream_kymograph(store: Store, *, family: str | None = None, all_sites: bool = False) -> LabFigure:
    """Draws ‖h_ℓ‖ over depth and epochs, one panel per arm, BP next to DFA on one colour scale."""
    return _kymograph(store, "stream_norm", "Residual stream over training", "median over images of ‖h_ℓ‖", family,
                      all_sites)  # fmt: skip


@styled
def gradient_kymograph(store: Store, *, family: str | None = None, all_sites: bool = False) -> LabFigure:
    """Draws ‖g_ℓ‖ over depth and epochs, one panel per arm, BP next to DFA on one colour scale."""
    return _kymograph(store, "stream_grad", "Gradient over training", "median over images of ‖∂L/∂h_ℓ‖", family,
                      all_sites)  # fmt: skip


def _kymograph(store: Store, name: str, title: str, quantity: str, family: str | None, all_sites: bool) -> LabFigure:
    chosen = store.select("snapshot").finished
    if not chosen.runs:
        raise KymographError("there is no finished run of snapshot; run `kymograph run snapshot`")
    declaration = Snapshot().declaration()
    arms = [arm.name for arm in declaration.arms if arm.name in chosen.arms]
    array = chosen.select(arms=[*arms, *(arm for arm in chosen.arms if arm not in arms)]).series(name)
    return kymograph(array, title, quantity, "epoch", sites=STREAM, labels=declaration.labels, family=family,
                     all_sites=all_sites)  # fmt: skip


FIGURES = {
    "snapshot-resmlp": StudyFigure(
        resmlp,
        "‖h_L‖ and ‖g_2‖ of the residual MLP over epochs, with and without terminal LayerNorm",
        file_name="figure_snapshot_resmlp",
        from_files=resmlp_from_logs,
    ),
    "snapshot-vit": StudyFigure(
        vit, "‖h_L‖ and ‖g_2‖ of ViT-Mini over epochs", file_name="figure_snapshot_vit", from_files=vit_from_logs
    ),
    "snapshot-kymograph": StudyFigure(stream_kymograph, "‖h_ℓ‖ over depth and epochs, a panel per arm"),
    "snapshot-kymograph-gradient": StudyFigure(gradient_kymograph, "‖g_ℓ‖ over depth and epochs, a panel per arm"),
}
"""The study's figures by name."""
