"""What the author of a probe's quantity imports; see `docs/howto/add-a-quantity.md`."""

from kymograph._probes.fixed_batch import FixedBatch as FixedBatch
from kymograph._probes.layers import evaluation_mode as evaluation_mode
from kymograph._probes.norms import as_float64 as as_float64, cosine as cosine, directions as directions, norms as norms
from kymograph._probes.quantities import QUANTITIES as QUANTITIES
