"""Minions: who is up, what they say, how people see them."""
