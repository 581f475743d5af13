"""Varying one source of variance at a time: ``kymograph variance`` as a function."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph.claims.ratios import compared_as_ratios
from kymograph.errors import KymographError, UsageError, did_you_mean
from kymograph.lab.run import Sweep, SweepOptions, sweep
from kymograph.report.variance_sources import ALL, SETTING, ArmSpread, arm_spreads
from kymograph.studies.base import Study
from kymograph.studies.loading import load_study


@dataclass(frozen=True)
class SourceSweeps:
    """The sweeps in which one source at a time was varied, and the spread of every arm."""

    sweeps: Mapping[str, Sweep]
    """By source, `ALL` first."""
    arms: Sequence[ArmSpread]

    @property
    def failures(self) -> int:
        """How many runs failed."""
        return sum(len(one.failures) for one in self.sweeps.values())


def vary_sources(
    reference: str,
    seeds: Sequence[int],
    options: SweepOptions,
    *,
    arms: Sequence[str] | None = None,
    sources: Sequence[str] = (),
    fields: Mapping[str, Any] | None = None,
) -> SourceSweeps:
    """Runs a study once with all sources of variance, and once per source; returns how much each contributes.

    Args:
        reference: the study.
        seeds: the seeds of every sweep.
        options: how the sweeps are computed, and where the runs go.
        arms: names or patterns; default: the study's default arms.
        sources: some of the study's sources; default: all that it has.
        fields: any other settings.
    """
    study, fields = load_study(reference), dict(fields or {})
    known = sources_of(study)
    for source in sources:
        if source not in known:
            raise UsageError(f"{study.name} has no source of variance {source!r}{did_you_mean(source, known)}")
    if SETTING in fields:
        raise UsageError(f"every source is varied in turn, so {SETTING} cannot be set; choose some with --sources")
    if len(seeds) < 2:
        raise UsageError("a standard deviation needs at least two seeds")
    if not study.headlines:
        raise KymographError(f"{study.name} declares no headline numbers, so there is no variance to show")
    sweeps = {}
    # All sources together come first, as in an ordinary sweep: the first sweep of a directory is what the study's
    # claims are registered for.
    chosen = (ALL, *(one for one in known if one != ALL and (one in sources or not sources)))
    for number, source in enumerate(chosen, start=1):
        if not options.quiet:
            print(f"{study.name}: {SETTING} {source}, sweep {number} of {len(chosen)}", file=sys.stderr)
        own = {} if source == ALL else {SETTING: source}
        sweeps[source] = sweep(reference, seeds, options, arms=arms, fields={**fields, **own})
    runs = [run for one in sweeps.values() for run in one.store.finished]
    return SourceSweeps(sweeps, arm_spreads(runs, study.headlines, compared_as_ratios(study.claims())))


def sources_of(study: Study) -> tuple[str, ...]:
    """Returns the values that a study's setting ``vary`` can take; raises if it has no such setting."""
    hint = typing.get_type_hints(study.config_type).get(SETTING)
    options = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
    if ALL not in options:
        raise KymographError(
            f"the sources of variance of {study.name} cannot be separated: it has no setting {SETTING!r} with the "
            f"value {ALL!r}"
        )
    return options
