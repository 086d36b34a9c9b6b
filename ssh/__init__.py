"""Hosts that are reached over SSH alone: roster, connection, and the push of one run."""
