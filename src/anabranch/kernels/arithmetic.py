"""Arithmetic of compiled kernels: Python's numbers on 64-bit registers.

Only generated modules import this one, because it needs Numba. Sums, differences and products are
returned with a flag that is set if they do not fit 64 bits. Float floor division and modulo are
CPython's own algorithm (`float_divmod` in Objects/floatobject.c), line by line.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import true_bit
from numba.extending import intrinsic

MIN = -(2**63)
"""The smallest int64: as a literal its positive half would not fit."""

INFINITY = math.inf
NAN = math.nan


def _checked(name: str) -> Any:
    def operate(typing_context: Any, a: Any, b: Any) -> Any:
        signature = types.Tuple((types.int64, types.boolean))(types.int64, types.int64)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pair = getattr(builder, name)(*args)
            parts = [builder.extract_value(pair, 0), builder.extract_value(pair, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        return signature, generate

    return intrinsic(operate)


add = _checked("sadd_with_overflow")
subtract = _checked("ssub_with_overflow")
multiply = _checked("smul_with_overflow")


@intrinsic
def unlikely(typing_context: Any, flag: Any) -> Any:
    """Mark a flag as rarely set for LLVM, so that the common path is straight-line code."""
    signature = types.boolean(types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(1), [ir.IntType(1), ir.IntType(1)])
        expect = builder.module.declare_intrinsic("llvm.expect", (ir.IntType(1),), kind)
        return builder.call(expect, [args[0], builder.not_(true_bit)])

    return signature, generate


@intrinsic
def _remainder(typing_context: Any, a: Any, b: Any) -> Any:
    # LLVM lowers frem to the C library's fmod, which is what CPython calls.
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.frem(*args)

    return types.float64(types.float64, types.float64), generate


@njit(error_model="numpy")
def modulo(a: int, b: int) -> int:
    """Return a % b for b other than 0; -1 is a special case because MIN % -1 overflows."""
    return 0 if b == -1 else a % b


@njit(error_model="numpy")
def float_modulo(a: float, b: float) -> float:
    """Return a % b for b other than 0."""
    rest: float = _remainder(a, b)
    if rest == 0.0:
        return math.copysign(0.0, b)
    if (b < 0.0) != (rest < 0.0):
        rest += b
    return rest


@njit(error_model="numpy")
def float_floor_divide(a: float, b: float) -> float:
    """Return a // b for b other than 0."""
    rest: float = _remainder(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    whole = float(math.floor(quotient)) if abs(quotient) < 4503599627370496.0 else quotient
    if quotient - whole > 0.5:
        whole += 1.0
    return whole


@njit(error_model="numpy")
def round_half_even(x: float) -> int:
    """Return round(x) for a float smaller than 2**52."""
    whole = math.floor(x)
    rest = x - whole
    up = rest > 0.5 or (rest == 0.5 and whole & 1 == 1)
    return int(whole) + 1 if up else int(whole)
