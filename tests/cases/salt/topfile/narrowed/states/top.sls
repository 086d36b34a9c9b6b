base: {'*': [a, b, c]}
