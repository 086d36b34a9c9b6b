"""What every package uses: records, names, events, targets, durable files; standard library."""
