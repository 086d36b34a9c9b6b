t2: {test.nop: [{names: [n1, n2]}]}
