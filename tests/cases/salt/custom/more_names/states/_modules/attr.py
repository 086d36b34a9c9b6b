def f():
    return [__salt__.test.echo('a'), __salt__.get('no.such')]
