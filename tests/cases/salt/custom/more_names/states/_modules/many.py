__virtual_aliases__ = ('alias1', 'alias2')
SEEN = []


def __init__(opts):
    SEEN.append(opts['id'])


def f():
    return SEEN
