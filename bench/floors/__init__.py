"""What the bare machine can do: scripts without any of the measured tools."""
