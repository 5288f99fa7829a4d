"""Windows, triggers and panes, as a fold over a recorded log."""
