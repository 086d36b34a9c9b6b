"""Commands on the host: the process engine and the functions cmd.*."""
