base: {'*': [p, ring, p]}
