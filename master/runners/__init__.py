"""Functions that run on the master: jobs, manage."""
