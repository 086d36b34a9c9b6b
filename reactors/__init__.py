"""Events to reactions: rules, rendering, and the shipped reactor SLS."""
