"""Jobs: stored, handed over, answered, shown."""
