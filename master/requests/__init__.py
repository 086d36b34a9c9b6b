"""Requests of clients: rights, dispatcher, handlers by verb; each request takes effect once."""
