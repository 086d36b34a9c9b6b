prod: {'*': [c]}
