"""`catena call`: one function in a process of its own."""
