"""How people and programs ask the master: submit, follow, cancel."""
