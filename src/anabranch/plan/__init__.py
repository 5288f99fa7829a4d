"""Plans: trees of nodes, and what makes one valid for a program."""

from anabranch.plan.layouts import Layout, choose_layout
from anabranch.plan.tree import Plan, PlanNode

__all__ = ["Layout", "Plan", "PlanNode", "choose_layout"]
