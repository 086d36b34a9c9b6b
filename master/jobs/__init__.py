"""Jobs and their deliveries: stored, sent to minions, returned, shown."""
