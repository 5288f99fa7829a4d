"""What a run is: program, layout, channels, plan of columns, fingerprint."""
