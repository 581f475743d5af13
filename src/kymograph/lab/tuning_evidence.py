"""A directory's evidence about its tuned arms: the stored tuning runs, and the choices in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kymograph.claims.plan import Plan
from kymograph.claims.tuned_arms import TunedArm, TuningRecords, tuned_arm
from kymograph.claims.tuning import logged_choices
from kymograph.errors import KymographError
from kymograph.runs.arm_settings import ArmSettings
from kymograph.runs.declaration import Declaration
from kymograph.runs.finding import has_ended
from kymograph.runs.history import History
from kymograph.runs.stored import StoredRun
from kymograph.runs.superseded import current_code
from kymograph.runs.tuned import tuning_study


def tuning_records(root: Path | None, history: History, declaration: Declaration) -> TuningRecords:
    """Reads the tuning runs of a study's current code in full, and the choices in the log."""
    name = tuning_study(declaration.name)
    specs = [run for run in history.planned.values() if run.study == name]
    if root is None or not specs:
        return TuningRecords()
    code = current_code(specs, {name: declaration})[name]
    planned = [spec for spec in specs if code.made(spec)]
    ended: dict[str, StoredRun] = {}
    damaged: dict[str, str] = {}
    for spec in planned:
        path = root / spec.directory
        if has_ended(str(path)):
            try:
                run = StoredRun(path)
                run.check()
                ended[spec.id] = run
            except KymographError as error:
                damaged[spec.id] = str(error).replace(str(path), path.name)
    return TuningRecords(planned, ended, damaged, logged_choices(history.log, declaration.name))


def tuned_arms(
    plan: Plan | None,
    declaration: Declaration,
    finished: Sequence[StoredRun],
    root: Path | None,
    history: History,
) -> dict[str, TunedArm]:
    """Returns the choice for every arm that was tuned or evaluated, and whether it holds.

    Args:
        plan: the registered plan, whose rules are binding; None: the study's own rules count.
        declaration: what the study declares.
        finished: the study's own runs that finished.
        root: the output directory; None: there is none.
        history: what the log says.
    """
    rules = declaration.tuned if plan is None else plan.rules_given(declaration.tuned)
    if not rules:
        return {}
    records = tuning_records(root, history, declaration)
    settings = ArmSettings() if plan is None else plan.settings_given(declaration.defaults)
    by_arm: dict[str, list[StoredRun]] = {}
    for run in finished:
        by_arm.setdefault(run.arm, []).append(run)
    touched = {run.arm for run in records.planned} | set(by_arm)
    found = {}
    for arm, rule in rules.items():
        if arm in touched:
            own: Mapping[str, Any] = settings.of(arm) or (dict(by_arm[arm][0].config) if arm in by_arm else {})
            found[arm] = _after_choice(tuned_arm(arm, rule, own, records), by_arm.get(arm, ()), history)
    return found


def with_chosen(settings: ArmSettings, tuned: Mapping[str, TunedArm]) -> ArmSettings:
    """Returns every arm's registered settings with the values that were chosen by the registered rules."""
    chosen = {arm: {one.tuned.setting: one.value} for arm, one in tuned.items() if one.value is not None}
    if not settings or not chosen:
        return settings
    return ArmSettings.pack({arm: settings.of(arm) | chosen.get(arm, {}) for arm in settings.arms})


def _after_choice(one: TunedArm, runs: Sequence[StoredRun], history: History) -> TunedArm:
    """Returns the arm, with a problem if some of its runs at the chosen value started before it was chosen."""
    if one.problem or not one.digest:
        return one
    heads = [run.log_heads or () for run in runs if run.config.get(one.tuned.setting) == one.value]
    before = {start for start in set(heads) if one.digest not in history.log.up_to(start)}
    early = sum(start in before for start in heads)
    if not early:
        return one
    problem = f"{early} runs of {one.arm} started before its {one.tuned.setting} was chosen"
    return replace(one, problem=problem, fails_verification=True)
