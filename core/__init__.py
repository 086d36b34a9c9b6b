"""Records, names, events, targets and durable files for every package; standard library only."""
