"""Data about minions: facts, sessions, rate limits, rows."""
