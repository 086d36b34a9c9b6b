"""Jobs, from the order until the master has stored the return."""
