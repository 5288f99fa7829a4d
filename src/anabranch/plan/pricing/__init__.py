"""The cost of a plan: rates, duties, network, the machine of each node."""
