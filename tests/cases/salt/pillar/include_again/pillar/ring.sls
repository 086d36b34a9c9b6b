include: [back]
ring: 1
v: ring
