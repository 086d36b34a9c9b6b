"""Action chains: model, rendering, scheduling, results, cleanup."""
