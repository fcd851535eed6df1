"""Vectors of float32 for loops that numba compiles; imported only where numba is.

Of a loop over arrays a compiler makes vectors only after it has asked whether any of them overlap,
which takes as long as a short loop itself, and it keeps nothing of one loop in registers for the
next. These functions say what is a vector. Nothing here looks at the bounds of an array.

What numba keeps of a caller does not see a change of this file: touch the caller's file, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model


def _has_wide_vectors() -> bool:
    """Return whether a vector of the processor that numba compiles for holds sixteen numbers."""
    if os.environ.get("NUMBA_CPU_NAME"):
        return "+avx512f" in os.environ.get("NUMBA_CPU_FEATURES", "")
    try:
        return bool(llvmlite.binding.get_host_cpu_features().get("avx512f", False))
    except RuntimeError:  # a system that does not tell
        return False


WIDTH = 16 if _has_wide_vectors() else 8
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_FLAGS = ("contract",)  # a product and a sum may be rounded together


class _VectorType(types.Type):
    """What numba knows of a vector: nothing but its name."""

    def __init__(self) -> None:
        super().__init__(name=f"Vector{WIDTH}")


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    """A vector is kept as one."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


_TYPE: Any = _VectorType()


def _intrinsic(function: Any) -> Any:
    """Let compiled functions call what writes the compiler's instructions."""
    return intrinsic(function)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the pointer to an entry of an array of one dimension."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _filled(builder: Any, number: Any) -> Any:
    """Return the vector of one number."""
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, cgutils.int32_t(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None)
    return builder.shuffle_vector(first, first, zeros)


@_intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """Return the vector that begins at an entry."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _place(context, builder, signature.args[0], *values)
        return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=4)

    return _TYPE(array, index), code


@_intrinsic
def store(_: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector from an entry on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _place(context, builder, signature.args[0], *values[:2])
        builder.store(values[2], builder.bitcast(place, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, index, vector), code


@_intrinsic
def filled(_: Any, number: Any) -> Any:
    """Return the vector of one float32."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        return _filled(builder, values[0])

    return _TYPE(number), code


@_intrinsic
def weighed(_: Any, total: Any, weights: Any, index: Any, vector: Any) -> Any:
    """Return a sum with one more vector, times an entry of an array of weights."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total, weights, index, vector = values
        weight = builder.load(_place(context, builder, signature.args[1], weights, index))
        product = builder.fmul(_filled(builder, weight), vector, flags=_FLAGS)
        return builder.fadd(total, product, flags=_FLAGS)

    return _TYPE(total, weights, index, vector), code


def _operation(name: str) -> Any:
    """Return the operation of the compiler's builder on two vectors."""

    def of_two(_: Any, one: Any, other: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            del context, signature
            operation: Callable[..., Any] = getattr(builder, name)
            return operation(*values, flags=_FLAGS)

        return _TYPE(one, other), code

    of_two.__name__ = of_two.__qualname__ = name
    return _intrinsic(of_two)


plus, minus, times, over = (_operation(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


@_intrinsic
def root(_: Any, vector: Any) -> Any:
    """Return the square roots of a vector."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        del context, signature
        kind, name = ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.sqrt.v{WIDTH}f32"
        module: Any = cgutils
        function = module.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, values)

    return _TYPE(vector), code
