"""`catena test`: a test kit for users' own state trees, formulas and custom modules."""
