"""Values of events and states: fields, keys, hashes, persistent maps."""
