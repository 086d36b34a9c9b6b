"""Simulate one master and its minions in one process, in virtual time, from one seed.

What runs is the product's own code; what is simulated is what it stands on: clocks, network,
disks, processes and the people who use it. `world` puts it together and lets faults happen,
`checker` judges, `python -m tests.sim SEED` tells the story of one seed.
"""
