"""Plans: trees of workers, and what makes one valid for a program."""

from anabranch.plan.layouts import Layout, choose_layout
from anabranch.plan.tree import Plan, Worker

__all__ = ["Layout", "Plan", "Worker", "choose_layout"]
