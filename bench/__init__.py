"""Benchmarks of catena beside its peers: `python -m bench`. See docs/benchmarks.md."""
