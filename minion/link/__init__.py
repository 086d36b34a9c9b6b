"""What goes to the master and to the processes of this host, and what comes from there."""
