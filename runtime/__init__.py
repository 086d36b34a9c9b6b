"""What executes on a host, with a daemon or over SSH: executor, journal, resume file, grains."""
