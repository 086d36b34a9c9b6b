"""Keys of minions: enrolment, decisions, tokens, rotation."""
