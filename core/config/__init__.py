"""Typed settings of master and minion."""
