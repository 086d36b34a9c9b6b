"""postgres_*: what a PostgreSQL server holds, in its wanted state."""
