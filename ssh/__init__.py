"""Hosts that are reached over SSH alone: how to connect to one, and how a job is pushed there."""
