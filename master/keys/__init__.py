"""Who may come in: enrolment, keys, tokens."""
