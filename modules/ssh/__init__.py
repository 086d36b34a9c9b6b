"""ssh: authorized keys and known hosts of users."""
