"""npm.*: packages of Node.js, of the host or of a project's folder."""
