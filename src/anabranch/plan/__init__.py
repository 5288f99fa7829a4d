"""Plans: trees of plan nodes, and the rules that make one valid for a program."""

from anabranch.plan.layouts import Layout, choose_layout
from anabranch.plan.tree import Plan, PlanNode

__all__ = ["Layout", "Plan", "PlanNode", "choose_layout"]
