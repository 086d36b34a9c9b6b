"""Worker processes that compile pillar and render, with limits on time and memory."""
