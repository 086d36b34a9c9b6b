include: [ring]
back: 1
v: back
