base: {'*': [b]}
dev: {'*': [a]}
