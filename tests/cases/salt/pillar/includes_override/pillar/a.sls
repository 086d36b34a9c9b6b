include: [b]
v: a
a: 1
