"""Files on the host: contents, attributes, edits, and the functions file.*."""
