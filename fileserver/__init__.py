"""File roots, environments and hashes; the caching client that minions use."""
