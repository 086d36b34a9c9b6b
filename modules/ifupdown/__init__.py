"""ip.*: network interfaces of Debian's ifupdown."""
