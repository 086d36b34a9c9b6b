def f():
    return 'dev'
