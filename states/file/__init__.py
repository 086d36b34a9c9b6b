"""States of files."""
