"""State modules: how a thing should be, and what was changed to make it so."""
