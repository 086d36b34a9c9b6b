"""`catena call`: one function in a process without the daemon's control."""
