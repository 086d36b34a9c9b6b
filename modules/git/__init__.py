"""git: the program git, called with a checked command line."""
