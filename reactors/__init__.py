"""The reactor: which reactions events cause, and the shipped reactor SLS."""
