__virtualname__ = 'test'


def __virtual__():
    return __virtualname__


def more():
    return 1
