"""What rows need running: fleets, SSH hosts, kept clients."""
