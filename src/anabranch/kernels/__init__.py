"""Kernels: the fold over columns, interpreted or compiled, with the same result."""

from anabranch.kernels.batches import EventBatch, Folded, gather
from anabranch.kernels.kernel import CompileVerdict, Kernel, explain_kernel, make_kernel
from anabranch.kernels.numpy_columns import Columns, Strings, fill, pack

__all__ = [
    "Columns",
    "CompileVerdict",
    "EventBatch",
    "Folded",
    "Kernel",
    "Strings",
    "explain_kernel",
    "fill",
    "gather",
    "make_kernel",
    "pack",
]
