def f():
    return 'base'
