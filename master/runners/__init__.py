"""Functions that run on the master, under Salt's names."""
