"""Scripts without any of the measured tools, which show a lower bound."""
