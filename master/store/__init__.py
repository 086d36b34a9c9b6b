"""The master's database: tables, migrations, one writer."""
