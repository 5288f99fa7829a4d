"""The work of a map task: read rows, check them against their channel, fold early, send envelopes."""
