"""Array types with shapes for annotations: ``Float[Tensor, "batch width"]``, ``Int[np.ndarray, " steps"]``.

These are jaxtyping's. Mypy reads them as the array type; the tests check them at run time, by an import hook. Nothing
else evaluates an annotation, so jaxtyping is not imported here: that would take a tenth of a second, and it need not be
installed. Unless it is already loaded, a subscript gives the array type: ``Float[list, "batch width"]`` is ``list``.

A shape of one axis is written with a leading space, ``" steps"``, so that linters do not take it for a name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "Shaped"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Shaped
else:

    class _AnyShape:
        """Stands in for a jaxtyping type: the array type, whatever the shape."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    class Bool(_AnyShape):
        """An array of Booleans."""

    class Float(_AnyShape):
        """An array of floating-point numbers."""

    class Int(_AnyShape):
        """An array of integers."""

    class Shaped(_AnyShape):
        """An array of any kind of number."""
