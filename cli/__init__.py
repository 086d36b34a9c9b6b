"""The `catena` command, one module per group of commands."""
