"""The state.* execution functions."""
