"""firewalld.*: zones and services of firewalld."""
