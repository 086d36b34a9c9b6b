"""What the master knows of minions: facts, sessions, rate limits, rows."""
