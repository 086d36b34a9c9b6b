"""SLS text to a state run: top, include, extend, low state, requisites, run."""
