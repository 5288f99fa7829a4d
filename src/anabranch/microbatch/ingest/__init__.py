"""What a map task does: read rows, judge them by their channel, fold early, send envelopes."""
