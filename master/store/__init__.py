"""Tables, migrations and queries of the master's database."""
