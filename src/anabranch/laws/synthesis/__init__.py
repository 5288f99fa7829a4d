"""Forks and joins from a small grammar, for programs that have none."""
