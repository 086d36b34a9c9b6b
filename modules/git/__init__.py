"""git: run the program git with a checked command line."""
