"""The minion daemon: one poll loop, a process per job, an outbox."""
