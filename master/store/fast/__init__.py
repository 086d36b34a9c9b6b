"""Short cuts of the store for what comes a thousand times a second."""
