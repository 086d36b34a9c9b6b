"""The rows, one module per area; each has ROWS, and its rows share the fixtures of one Lab."""
