"""TODO Lightning"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kymograph._experiments.lightning_callback import KymographCallback as KymographCallback
else:
    from kymograph._lazy import load_on_demand

    __getattr__, __dir__, __all__ = load_on_demand(__name__)
    del load_on_demand
