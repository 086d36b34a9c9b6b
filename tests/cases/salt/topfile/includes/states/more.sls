base: {'oracle*': [b]}
