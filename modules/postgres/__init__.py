"""postgres.*: roles, databases and what is in them, by the program psql."""
