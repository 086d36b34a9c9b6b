"""Execution modules: what can be called on a host by name (test.ping, cmd.run, pkg.install)."""
