"""Receives the messages of minions: presence, pillar requests, returns; shows minions."""
