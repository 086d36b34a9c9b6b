"""mysql_*: what a MariaDB or MySQL server holds, in its wanted state."""
