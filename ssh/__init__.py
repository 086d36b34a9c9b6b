"""Hosts without an agent, over SSH: connections, and pushing a job."""
