"""The functions cmd.*."""
