"""One job on a host without an agent: what it needs is put together here, sent, run, collected."""
