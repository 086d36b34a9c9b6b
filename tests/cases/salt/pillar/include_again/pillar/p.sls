include: [{q: {key: one, defaults: {x: 1}}}, {q: {key: 'two:deep'}}, r]
v: p
