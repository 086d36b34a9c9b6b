"""Public formulas, applied to booted Debian systems, and a count of what they use."""
