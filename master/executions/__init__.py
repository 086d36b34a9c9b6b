"""What every engine shares: runs, executions, their history, leases, due times and approvals."""
