include: [two]
s: {test.nop: [{order: first}]}
