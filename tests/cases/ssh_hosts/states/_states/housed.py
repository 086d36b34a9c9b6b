"""A state of the house."""


def present(name, text):
    """Write a file, as a custom state does that somebody once wrote."""
    ret = {"name": name, "result": True, "changes": {}, "comment": "in order"}
    before = (
        __salt__["file.read"](name).rstrip("\n") if __salt__["file.file_exists"](name) else None
    )
    if before == text:
        return ret
    ret["changes"] = {"text": {"old": before, "new": text}}
    if __opts__["test"]:
        ret["result"] = None
        return ret
    __salt__["file.write"](name, text)
    return ret
