d: {y: 2}
l: [b]
