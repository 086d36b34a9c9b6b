"""The master: store, jobs, chains, gateway, presence."""
