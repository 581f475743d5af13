"""What the author of a probe's quantity imports; `docs/howto/add-a-quantity.md` adds one.

>>> from kymograph.quantities import QUANTITIES, FixedBatch, as_float64, cosine, directions, evaluation_mode, norms
>>> "sharpness" in QUANTITIES.names()
True
>>> def confidence(fixed: FixedBatch) -> torch.Tensor:  # a quantity of the network: "at": "network" in its PART
...     x, _ = fixed.batch
...     with evaluation_mode(fixed.model), torch.no_grad():
...         return as_float64(fixed.model(x)).softmax(-1).amax(-1).mean()
>>> batch = torch.eye(2), torch.tensor([0, 1])
>>> loss = lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
>>> float(confidence(FixedBatch(torch.nn.Identity(), loss, batch)))
0.7310585786300049
>>> a, b = torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
>>> float(norms(a)), round(float(cosine(a, b)), 6), [round(x, 6) for x in directions(a).tolist()]
(5.0, 0.96, [0.6, 0.8])
"""

from kymograph._probes.fixed_batch import FixedBatch as FixedBatch
from kymograph._probes.layers import evaluation_mode as evaluation_mode
from kymograph._probes.norms import as_float64 as as_float64, cosine as cosine, directions as directions, norms as norms
from kymograph._probes.quantities import QUANTITIES as QUANTITIES
