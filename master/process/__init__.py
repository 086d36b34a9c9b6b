"""The master as a process of its host: log, memory, clocks, housekeeping, socket access."""
