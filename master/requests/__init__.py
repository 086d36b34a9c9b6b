"""Requests of clients: rights, dispatcher, handlers; each request takes effect once."""
