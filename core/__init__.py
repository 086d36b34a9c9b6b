"""The ground floor: records, names, events, targets, durable files. Standard library only, Python 3.9."""
