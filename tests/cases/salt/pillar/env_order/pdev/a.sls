v: dev
d: 1
