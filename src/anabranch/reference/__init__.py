"""The truth: the sequential fold, and the simulator that runs plans against it."""
