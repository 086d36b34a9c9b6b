"""The event table, those who follow it, and what the reactor does about it."""
