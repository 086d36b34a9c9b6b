"""Connections of the agent: to the master, and to other processes of this host."""
