"""What several execution modules work with, and what is none itself."""
