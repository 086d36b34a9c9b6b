"""Compile SLS files into a state run: top, include, extend, low state, requisites, run."""
