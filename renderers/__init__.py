"""Text in, data out: #! pipeline, Jinja, YAML and friends, with a map back to file and line."""

#: Renderer -> module that holds it (see `pipeline`).
INDEX = {
    "jinja": "catena.renderers.jinja",
    "yaml": "catena.renderers.yaml",
    "json": "catena.renderers.plain",
    "toml": "catena.renderers.plain",
    "text": "catena.renderers.plain",
    "py": "catena.renderers.py",
    "gpg": "catena.renderers.gpg",
    "msgpack": "catena.renderers.plain",
    "nacl": "catena.renderers.nacl",
    "pyobjects": "catena.renderers.pyobjects",
    "yamlex": "catena.renderers.yamlex",
    "mako": "catena.renderers.mako",
    "stateconf": "catena.renderers.stateconf",
}
