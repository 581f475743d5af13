"""A warm process to fork from: everything that the scenes load is loaded, on one thread."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.chaos import scenes

WARM = (
    "torch._dynamo", "pandas", "pyarrow.parquet", "tensorboard.plugins.hparams.summary_v2", "mlflow", "alembic", "tyro",
    "scipy.stats", "matplotlib.backends.backend_pdf",
    "kymograph_studies.audit.questions", "kymograph_studies.audit.checkpoint", "kymograph_studies.reproduce",
    "kymograph_studies.calibration.checkpoint", "kymograph_studies.training.trained_networks",
    "kymograph_studies.variance", "kymograph._experiments.running", "kymograph._pictures.figures",
    "kymograph._pictures.report_page.page", "kymograph._pictures.verdict_table", "kymograph._sharing.bundle",
    "kymograph._sharing.verify",
)  # fmt: skip


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stored runs, claims and a user-defined study."""
    torch.set_num_threads(1)  # threads do not survive a fork
    for name in WARM:
        importlib.import_module(name)
    return scenes.build(tmp_path_factory.mktemp("chaos") / "stage")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Where a scene is played, and its directory of temporary files."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "work", tmp_path / "temporary"
