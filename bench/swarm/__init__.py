"""Simulated minions: real CURVE connections and keys, thousands of them in a few processes."""
