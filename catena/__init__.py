"""catena: action chains, states and remote execution for fleets of hosts."""

__version__ = "0.1.0"
