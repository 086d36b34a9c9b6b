#!py
def f(*a, **k):
    return {"result": True, "comment": "called", "changes": {"a": list(a), "k": k}}
def g():
    return 5
def h():
    return False
def n():
    return None
def boom():
    raise ValueError("x")
def run():
    return {
      "a": {"cmd.call": [{"func": f}, {"args": [1, 2]}, {"kws": {"z": 3}}]},
      "b": {"cmd.call": [{"func": g}]},
      "c": {"cmd.call": [{"func": h}]},
      "d": {"cmd.call": [{"func": n}]},
      "w": {"cmd.wait_call": [{"func": g}, {"watch": [{"cmd": "b"}]}]},
      "x": {"cmd.wait_call": [{"func": g}, {"watch": [{"cmd": "none"}]}]},
      "none": {"test.nop": []} if False else {"cmd.run": [{"name": "true"}, {"unless": "true"}]},
      "l": {"cmd.call": [{"func": lambda: {"changes": {"x": 1}}}]},
    }
