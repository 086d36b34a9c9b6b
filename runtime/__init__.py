"""What executes on a host, daemon or SSH alike: executor, journal, resume file, loader, grains."""
