"""Run commands for the modules: options, identity, limits, the process and its tree."""
