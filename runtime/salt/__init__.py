"""Stand-ins for modules of the `salt` package; custom files get them by `names.salt_names`."""
