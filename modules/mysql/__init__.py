"""mysql.*: users, grants and databases of MariaDB and MySQL, by their client program."""
