def present(name):
    missing = __opts__["test"]
    return {
        "name": name,
        "result": None if missing else True,
        "changes": {"rich": name},
        "comment": __salt__["rich.shout"](name),
    }
