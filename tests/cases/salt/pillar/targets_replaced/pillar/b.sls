v: b
b: 1
