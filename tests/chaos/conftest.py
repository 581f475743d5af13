"""A warm process to fork from: everything that the scenes load is loaded, on one thread."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.fuzz import stage as samples

WARM = (
    "pandas", "pyarrow.parquet", "tensorboard.plugins.hparams.summary_v2", "mlflow", "alembic", "tyro", "scipy.stats",
    "kymograph.lab.run", "kymograph.lab.bundle", "kymograph.lab.figures", "kymograph.lab.report",
    "kymograph.lab.verify", "kymograph.report.page", "kymograph.report.verdict_table",
    "matplotlib.backends.backend_pdf",
)  # fmt: skip


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stored runs, claims and a user-defined study."""
    torch.set_num_threads(1)  # threads do not survive a fork
    for name in WARM:
        importlib.import_module(name)
    return samples.build(tmp_path_factory.mktemp("chaos") / "stage")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Where a scene is played, and its directory of temporary files."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "place", tmp_path / "temporary"
