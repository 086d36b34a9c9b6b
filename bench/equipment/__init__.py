"""Fixtures of rows: fleets, SSH hosts, persistent clients."""
