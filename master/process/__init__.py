"""The master as a process of its host: its log, its memory, its chores, who reaches its socket."""
