"""What a plan costs: rates, duties, network, the machine for each node."""
