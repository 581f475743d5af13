"""A study in one function: its keyword arguments are the settings, its arms are named sets of them.

    @ky.study(question="Does warm-up lower the final sharpness?",
              arms={"constant": {}, "warmup": {"warmup_steps": 100}},
              claims=[ky.Claim.compare("sharpness", "warmup", "<", "constant", margin=1.1)])
    def warmup_study(run: ky.ActiveRun, *, lr: float = 0.1, warmup_steps: int = 0, steps: int = 500):
        ...
        return {"sharpness": sharpness}

What the function returns is the summary of its run.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kymograph._claims.claim import Claim
from kymograph._claims.judge import judge
from kymograph._claims.verdict import Verdicts
from kymograph._errors import KymographError
from kymograph._experiments import running
from kymograph._runs.declaration import Arm, SeriesDisplay
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from kymograph._runs.storable import stored_summary
from kymograph._runs.store import Store
from kymograph._runs.tuned import Tuned
from kymograph._studies.settings import build_config
from kymograph._studies.study import Study, check_study
from kymograph._sweep.compute import Workplace
from kymograph._sweep.engines.base import ENGINES, options_type

Trained = Mapping[str, Any] | None
Body = Callable[..., Trained]
_ALWAYS = ("arm", "debug", "help", "seed", "version", "dir")
"""What names a run, and the options that every verb has."""


class FunctionStudy(Study[Any]):
    """A study whose runs are calls of one function; made by `study`."""

    body: Callable[..., Trained]
    _arms: tuple[Arm, ...] = ()
    _claims: tuple[Claim, ...] = ()

    def arms(self) -> Sequence[Arm]:
        """Returns the arms that the decorator was given."""
        return self._arms

    def claims(self) -> Sequence[Claim]:
        """Returns the claims that the decorator was given."""
        return self._claims

    def steps(self, config: Any) -> int:
        """Returns the setting ``steps`` or ``epochs`` if there is one, for progress bars."""
        for name in ("steps", "epochs"):
            if isinstance(value := getattr(config, name, None), int):
                return max(value, 1)
        return 1

    def train(self, specs: Sequence[RunSpec[Any]], work: Workplace) -> list[RunResult]:
        """Calls the function once per run; returns what each logged and returned."""
        return [self._call(spec, work) for spec in specs]

    def run(self, seeds: Sequence[int] | None = None, **options: Any) -> Store:
        """Runs the study, as `kymograph.run` does; returns its runs."""
        return running.run(self, seeds, **options)

    def judge(self, runs: str | Path | Store = "runs", **options: Any) -> Verdicts:
        """Judges the study's claims on stored runs, as `kymograph.judge` does."""
        store = runs if isinstance(runs, Store) else Store.open(runs)
        return judge(store.select(self.name), studies=[self], **options)

    def __call__(self, *args: Any, **settings: Any) -> Trained:
        """Calls the function itself."""
        return self.body(*args, **settings)

    def _call(self, spec: RunSpec[Any], work: Workplace) -> RunResult:
        from kymograph._experiments.active_run import ActiveRun
        from kymograph._experiments.global_generators import global_state, nothing_drawn, seeded
        from kymograph._probes.distributed import ranks_here

        settings, ranks = dataclasses.asdict(spec.config), ranks_here() if self.processes > 1 else None
        run = ActiveRun(spec.arm, spec.seed, settings, work.device, work, work.directory(spec), {"run": spec.id}, ranks)
        with seeded(spec.seed, "global"):
            start = global_state()
            try:
                returned = self.body(run, **settings)
                drawn = not nothing_drawn(start, global_state())
                series = run.end()
            except BaseException as error:
                if ranks is None or (cause := ranks.cause(error)) is error:
                    raise
                raise cause from error
            finally:
                run.close()
        if drawn:
            run.notes.append("random numbers came from the global generators, which were set by the run's seed")
        summary = run.summary | stored_summary(returned, f"{self.body.__name__}()")
        return RunResult(series, summary, notes=tuple(run.notes), processes=run.processes)


def study(
    *,
    question: str = "",
    arms: Mapping[str, Mapping[str, Any]],
    claims: Sequence[Claim] = (),
    headlines: Mapping[str, str] | None = None,
    name: str | None = None,
    version: int = 1,
    series: Sequence[SeriesDisplay] = (),
    time: str = "training step",
    about: Mapping[str, str] | None = None,
    default_arms: Sequence[str] | None = None,
    tune: Tuned | Mapping[str, Tuned] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    p_values: Sequence[str] = (),
    threads: int | None = 1,
    processes: int = 1,
) -> Callable[[Body], FunctionStudy]:
    """Turns a function ``f(run, *, setting=default, ...)`` that trains and returns summary numbers into a study.

    >>> @ky.study(question="Does the rate matter?", arms={"slow": {"lr": 0.1}, "fast": {"lr": 0.5}},
    ...           claims=[ky.Claim.compare("distance", "fast", "<", "slow", margin=1.1)])
    ... def descent(run: ky.ActiveRun, *, lr: float = 0.1, steps: int = 5):
    ...     x = torch.randn((), generator=run.generator("start"))
    ...     for step in run.steps(steps):
    ...         x = x - lr * x
    ...         run.log(distance=x.abs())
    ...     return {"distance": x.abs()}
    >>> descent
    <study descent: Does the rate matter?>

    Save it in a file and run it with ``kymograph run FILE.py``, or define it in a notebook and run it with
    `kymograph.run`: the source is part of a run's identity. That of a study in a notebook is its own cell, and what it
    depends on in the cells executed before.

    Args:
        question: what the study asks, for tables and reports.
        arms: the conditions, each a name with its settings; a setting that some arm sets has its default in the others,
            and the user cannot override it.
        claims: what is predicted; `Claim.compare` states one in a line.
        headlines: the summary numbers to show in tables, with their labels; default: all that a claim is about.
        name: the study's name; default: the function's, without a final ``_study``.
        version: raise it when the numbers change for a reason that the code does not show.
        series: which series a report shows, and how; default: all of them.
        time: the label of the time axis.
        about: a line about each arm.
        default_arms: those that run if none are named; default: all.
        tune: how a setting of the arms is chosen on separate seeds before they are evaluated: one rule for all arms, or
            rules by the arms' names or patterns.
        bounds: the ranges of bounded numbers whose names do not imply them, e.g. ``{"error": (0, 100)}``; intervals end
            there.
        p_values: the headline numbers that are p-values, of which tables show median and range.
        threads: how many torch threads a run may use. With one, runs have the same bits on every engine and share a
            machine best; None: all, for a large network that has the machine to itself.
        processes: how many processes train each run together. Each calls the function, in a process group that is
            initialised and with torchrun's environment variables; rank 0's results are stored.
    """
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise KymographError(f"processes must be a whole number of at least 1, not {processes!r}")

    def decorate(function: Body) -> FunctionStudy:
        chosen = name or function.__name__.removesuffix("_study") or function.__name__
        config_type = _config_type(function, chosen)
        built_arms = _build_arms(arms, config_type, chosen, about or {}, default_arms)
        stated = tuple(replace(claim, study=chosen) if claim.study in ("", "own") else claim for claim in claims)
        of_claims = [side.measure.name for claim in stated for side in claim.sides if side.measure.reduce is None]
        attributes = {
            "name": chosen,
            "question": question,
            "version": version,
            "config_type": config_type,
            "headlines": dict(headlines if headlines is not None else zip(of_claims, of_claims, strict=True)),
            "series": tuple(series),
            "time": time,
            "body": staticmethod(function),
            "tune": tune,
            "bounds": dict(bounds or {}),
            "p_values": tuple(p_values),
            "threads": threads,
            "processes": processes,
            "_arms": built_arms,
            "_claims": stated,
            "__module__": function.__module__,
            "__doc__": function.__doc__,
        }
        result: FunctionStudy = type(function.__name__, (FunctionStudy,), attributes)()
        check_study(result, f"the study {chosen!r}")
        result.tuning()  # an invalid rule is refused here, not at the first run
        arm_names = {arm.name for arm in built_arms}
        for claim in stated:
            for side in claim.sides:
                if side.arm not in arm_names:
                    raise KymographError(
                        f"the claim {claim.name!r} is about the arm {side.arm!r}, which {chosen} does not have"
                    )
        return result

    return decorate


def _config_type(function: Body, study: str) -> type:
    """Returns the dataclass of a function's settings: its keyword-only arguments."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):  # fmt: skip
        raise KymographError(
            f"{study}: the function's first argument must be the run, e.g. def {study}(run, *, lr=0.1)"
        )
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise KymographError(f"{study}: the types of its settings cannot be read: {error}") from None
    fields = []
    for parameter in parameters[1:]:
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise KymographError(f"{study}: {parameter.name} must come after a *, because settings are passed by name")
        if taken := reserved_names().get(parameter.name):
            raise KymographError(f"{study}: a setting cannot be called {parameter.name!r}, which is {taken}; rename it")
        if parameter.default is inspect.Parameter.empty:
            raise KymographError(f"{study}: the setting {parameter.name} has no default; every setting needs one")
        hint = hints.get(parameter.name, type(parameter.default))
        default = parameter.default
        if isinstance(default, list | dict | set):
            raise KymographError(
                f"{study}: the setting {parameter.name} is a {type(default).__name__}, which one run could change for "
                "the next; use a tuple"
            )
        fields.append((parameter.name, hint, dataclasses.field(default=default)))
    return dataclasses.make_dataclass(
        f"{study.title().replace('_', '')}Settings", fields, frozen=True, namespace={"__doc__": f"Settings of {study}."}
    )


@functools.cache
def reserved_names() -> Mapping[str, str]:
    """Returns the names of all options for running a study, each with a phrase for its owner.

    They are those of `kymograph.run` and of the built-in engines. The command line has the same options under the same
    names, but for ``out``, which is ``--dir`` there; a test compares them.
    """
    owners: dict[str, str] = {}
    for engine in filter(ENGINES.is_built_in, ENGINES.names()):
        kind = options_type(engine)
        for field in dataclasses.fields(kind) if kind is not None else ():
            owners[field.name] = f"an option of the engine {engine}"
    parameters = inspect.signature(running.run).parameters.values()
    shared = [*_ALWAYS, *(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)]
    return owners | dict.fromkeys(shared, "an option of every study")


def _build_arms(
    arms: Mapping[str, Mapping[str, Any]],
    config_type: type,
    study: str,
    about: Mapping[str, str],
    default: Sequence[str] | None,
) -> tuple[Arm, ...]:
    if not arms:
        raise KymographError(f"{study} has no arms; a study compares at least one with another or with a number")
    names = {name: None for settings in arms.values() for name in settings}
    defaults = dataclasses.asdict(config_type())
    built = []
    for arm, settings in arms.items():
        treatment = {name: settings.get(name, defaults.get(name)) for name in names}
        build_config(config_type, treatment, study)  # names and types are checked here, not at the first run
        text = about.get(arm) or ", ".join(f"{name} {value}" for name, value in settings.items())
        built.append(Arm(arm, text, treatment, default=default is None or arm in default))
    return tuple(built)
