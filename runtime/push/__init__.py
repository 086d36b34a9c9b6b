"""The part of the runtime that SSH ships to a host, and its protocol with the master."""
