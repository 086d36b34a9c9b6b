"""What minions say to the master, and what it shows of them."""
