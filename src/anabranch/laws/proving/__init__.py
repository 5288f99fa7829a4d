"""Proofs of the laws with z3, for programs over integers and booleans."""
