"""Benchmarks of catena and other tools: `python -m bench`. See docs/benchmarks.md."""
