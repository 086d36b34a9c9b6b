"""Start of an agent: settings, identity, folders."""
