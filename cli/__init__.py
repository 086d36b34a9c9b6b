"""The catena command, one file per group of commands."""
