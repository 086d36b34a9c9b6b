base: {'*': [a]}
dev: {'*': [b]}
