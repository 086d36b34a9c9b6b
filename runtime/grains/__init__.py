"""Grains: facts about this host, under Salt's names."""
