"""pip.*: Python packages, in the system's Python or in virtual environments."""
