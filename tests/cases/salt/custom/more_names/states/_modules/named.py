__virtualname__ = 'virtual_only'


def f():
    return 1
