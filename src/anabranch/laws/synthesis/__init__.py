"""Synthesis of forks and joins from a small grammar, for programs without them."""
