"""The wire codec, keys, and the ZeroMQ sockets of master and minion."""
