"""One job on a host without an agent: compile, bundle, send, run, collect."""
