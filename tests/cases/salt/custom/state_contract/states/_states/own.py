def mod_init(low):
    __context__.setdefault('begun', []).append(low['__id__'])
    return True


def f(name):
    inner = __states__['test.succeed_with_changes'](name='x')
    seen = [__low__['fun'], __env__, __context__['begun'], inner['result'], __opts__['test']]
    return {'name': name, 'changes': {}, 'result': True, 'comment': repr(seen)}
