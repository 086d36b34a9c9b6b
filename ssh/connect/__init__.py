"""From a roster to an authenticated connection with one host, and the commands that it runs."""
