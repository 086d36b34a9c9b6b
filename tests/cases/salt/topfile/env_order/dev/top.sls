base: {'*': [b]}
dev: {'*': [a]}
prod: {'*': [c]}
