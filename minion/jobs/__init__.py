"""Jobs from the order to the return that the master has."""
