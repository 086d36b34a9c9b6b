"""Jobs and chains on hosts without an agent: plans and makes visits over SSH."""
