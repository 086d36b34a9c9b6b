"""Processes for what costs CPU."""
