"""What an agent finds out before it serves: settings, names, places."""
