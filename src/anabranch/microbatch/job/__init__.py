"""The parts of a run that do not change: program, layout, channels, column plan, fingerprint."""
