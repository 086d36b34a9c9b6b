"""Roster, keys and authenticated connections to one host, and commands there."""
