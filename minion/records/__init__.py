"""Record files that survive a power failure."""
