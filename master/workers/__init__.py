"""Worker processes that compile pillar and render, with time limits."""
