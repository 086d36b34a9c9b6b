"""The ground floor: records, names, events, targets, durable files. Only standard library."""
