#!py


def run():
    wanted = sorted(set("hash seeds differ here".split()))
    states = {f"py {word}": {"test.nop": [{"order": 3}]} for word in wanted}
    states["include"] = ["app"]
    states["own state"] = {
        "rich.present": [{"name": __salt__["rich.shout"](__grains__["tier"])}]
    }
    return states
