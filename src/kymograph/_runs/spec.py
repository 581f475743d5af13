"""What a run is before it is computed: study, arm, seed and resolved configuration, and the id they hash to."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kymograph._errors import KymographError
from kymograph._streams import MAX_SEED

if TYPE_CHECKING:  # before Python 3.13, the default of a type variable exists for type checkers only
    import typing_extensions

    Config = typing_extensions.TypeVar("Config", covariant=True, default=Any)
else:
    Config = TypeVar("Config", covariant=True)
MAX_NAME = 1000
"""The most characters in the name of a study or an arm."""
ADDED_LATER: Mapping[str, Any] = {"later": True}
"""The metadata of a setting that was added to a study after it had runs."""


def canonical_json(value: Any) -> str:
    """Returns the canonical JSON of ``value``: sorted keys, no spaces, shortest floats, no NaN."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(value: Any, length: int = 16) -> str:
    """Returns the first ``length`` hex digits of the SHA-256 of ``value``'s canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def settings_of(config: Any) -> dict[str, Any]:
    """Returns a study's configuration as a dictionary.

    A setting that was added later (metadata `ADDED_LATER`) is left out while it has its default value, so that
    earlier runs keep their ids.
    """
    settings = dataclasses.asdict(config)
    for field in dataclasses.fields(config):
        if field.metadata.get("later") and settings[field.name] == field.default:
            del settings[field.name]
    return settings


def slug(text: str) -> str:
    """Returns ``text`` as a plain directory name: letters, digits, ``.``, ``_``, ``-``; ``/`` becomes ``__``."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text.replace("/", "__")).lstrip(".") or "arm"


@functools.lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return canonical_json(text)


@functools.lru_cache(maxsize=4096, typed=True)
def _code(study: str, version: int, source: str | None) -> str:
    """Returns the end of an identity's canonical JSON, which all runs of the same code share."""
    code = {} if source is None else {"source": source}
    return "," + canonical_json({**code, "study": study, "version": version})[1:]


@dataclass(frozen=True)
class RunSpec(Generic[Config]):
    """One run: an arm of a study at a seed, with every field of its configuration resolved.

    A study's own specs hold its typed configuration; those read from disk hold its settings as a dictionary. Both
    have the same identity.

    >>> spec = ky.load_study("warmup.py").specs(seeds=[42], arms=["warmup"], fields={"lr": 0.05})[0]
    >>> spec.arm, spec.seed, spec.config.lr, len(spec.id)
    ('warmup', 42, 0.05, 16)
    """

    study: str
    arm: str
    seed: int
    config: Config
    version: int
    """The study's version, raised whenever its numbers change, so that old results are not taken for new ones."""
    source: str | None = None
    """The hash of a user-defined study's code; None for a built-in study."""

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as a dictionary."""
        return dict(self._settings)

    @functools.cached_property
    def _settings(self) -> Mapping[str, Any]:
        config: Any = self.config
        return config if isinstance(config, Mapping) else settings_of(config)

    @functools.cached_property
    def settings_text(self) -> str:
        """The configuration as canonical JSON, equal for runs with the same settings."""
        return canonical_json(self._settings)

    @property
    def identity(self) -> dict[str, Any]:
        """The dictionary of which the id is a hash."""
        code = {} if self.source is None else {"source": self.source}
        return {
            "study": self.study,
            "arm": self.arm,
            "seed": self.seed,
            "config": self.settings,
            "version": self.version,
            **code,
        }

    @functools.cached_property
    def id(self) -> str:
        """Sixteen hex digits that identify this run."""
        return hashlib.sha256(canonical_json(self.seed).join(self._around_seed).encode()).hexdigest()[:16]

    @functools.cached_property
    def _around_seed(self) -> tuple[str, str]:
        """The canonical JSON of the identity before and after its seed; keys are sorted."""
        return f'{{"arm":{_quoted(self.arm)},"config":{self.settings_text},"seed":', _code(
            self.study, self.version, self.source
        )

    @property
    def directory(self) -> str:
        """The run's directory below the output directory: readable first, unique last."""
        return f"{slug(self.study)}/{slug(self.arm)}-s{self.seed}-{self.id}"

    def at_seeds(self, seeds: Iterable[int]) -> list[RunSpec[Config]]:
        """Returns this run at other seeds; what does not depend on the seed is computed once."""
        shared = {name: getattr(self, name) for name in ("_settings", "settings_text", "_around_seed")}
        specs = [RunSpec(self.study, self.arm, seed, self.config, self.version, self.source) for seed in seeds]
        for spec in specs:
            spec.__dict__.update(shared)
        return specs

    @staticmethod
    def from_identity(identity: Mapping[str, Any]) -> RunSpec[Mapping[str, Any]]:
        """Builds a spec from a stored identity; raises if a key is missing or invalid."""
        try:
            spec = RunSpec(
                study=identity["study"],
                arm=identity["arm"],
                seed=identity["seed"],
                config=identity["config"],
                version=identity["version"],
                source=identity.get("source"),
            )
        except (KeyError, TypeError) as error:
            raise KymographError(f"the run lacks {error}") from None
        if not (isinstance(spec.config, dict) and isinstance(spec.source, str | None)):
            raise KymographError("its settings or its source are of the wrong type")
        if type(spec.seed) is not int or abs(spec.seed) > MAX_SEED or type(spec.version) is not int:
            raise KymographError("its seed or its version is not a 64-bit integer")
        if not all(isinstance(name, str) and len(name) <= MAX_NAME for name in (spec.study, spec.arm)):
            raise KymographError(f"its study or its arm is not a string of at most {MAX_NAME} characters")
        return spec
