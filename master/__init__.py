"""The master daemon; `daemon.py` is its composition root."""
