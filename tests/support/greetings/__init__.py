"""The smallest engine: a greeting waits for a minion's agent to start and is then sent.

It has the modules of every engine, and needs nothing of the master but its line in the list. A
real one is a package of `catena.master`; its tables are made by a migration, and its contract is
in `catena.client.requests`.
"""
