"""The processes that jobs run in, and the template that they are forked from."""
