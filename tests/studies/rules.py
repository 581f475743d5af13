"""A user's own study of images, of a rule that no built-in study trains; ``tests.studies.rules:Normalised``."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph import Arm, RunResult, RunSpec
from kymograph._sweep.compute import Workplace
from kymograph_studies.training.image_study import ImageSettings, ImageStudy


class Normalised(ImageStudy[ImageSettings]):
    """Backpropagation whose signal is normalised, as a rule of its own."""

    name = "normalised"
    question = "Does normalised backpropagation train?"
    config_type = ImageSettings

    def arms(self) -> Sequence[Arm]:
        """One arm."""
        return [Arm("normalised", "normalised backpropagation", {"rule": "normalised-bp"}, default=True)]

    def train(self, specs: Sequence[RunSpec[ImageSettings]], work: Workplace) -> list[RunResult]:
        """Trains the runs one after the other."""
        from kymograph_studies.training.image_training import fit, result

        return [result(spec, fit(spec, spec.config, work)) for spec in specs]
