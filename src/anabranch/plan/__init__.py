"""Plans: trees of workers, and what makes one valid for a program."""

from anabranch.plan.tree import Plan, Worker

__all__ = ["Plan", "Worker"]
