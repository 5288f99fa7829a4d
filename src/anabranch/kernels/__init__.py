"""Kernels: the fold over columns, interpreted or compiled, with one answer."""

from anabranch.kernels.batches import Batch, Folded, gather
from anabranch.kernels.columns import Columns, Strings, fill, pack
from anabranch.kernels.kernel import Kernel, Verdict, explain_kernel, make_kernel

__all__ = [
    "Batch",
    "Columns",
    "Folded",
    "Kernel",
    "Strings",
    "Verdict",
    "explain_kernel",
    "fill",
    "gather",
    "make_kernel",
    "pack",
]
