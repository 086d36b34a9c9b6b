"""The part of the runtime that is copied to a host over SSH, and its protocol with the master."""
