"""Shared by all engines: runs, executions, their history, leases, due times and approvals."""
