"""Text in, data out: the #! pipeline, Jinja, YAML and friends, with a map back to file and line."""
