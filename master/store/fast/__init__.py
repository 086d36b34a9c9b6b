"""Fast paths of the SQLite store for statements that run a thousand times a second."""
