"""network.*: addresses, networks, routes and names of this host."""
