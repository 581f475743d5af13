"""Array types with shapes for annotations: ``Float[Tensor, "batch width"]``, ``Int[np.ndarray, " steps"]``.

These are jaxtyping's. Mypy reads them as the array type; the tests check them at run time, by an import hook. Nothing
else evaluates an annotation, so jaxtyping is not imported for its own sake: it costs a tenth of a second and need not
be installed. Unless it is loaded already, a subscript gives the array type:

    >>> Float[list, "batch width"]
    <class 'list'>

A shape of one axis is written with a leading blank, ``" steps"``, so that linters do not take it for a name.
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
        """An array of truth values."""

    class Float(_AnyShape):
        """An array of floating-point numbers."""

    class Int(_AnyShape):
        """An array of whole numbers."""

    class Shaped(_AnyShape):
        """An array of any kind of number."""
