"""The event table and its bus, the subscribers, and the store of the reactor."""
