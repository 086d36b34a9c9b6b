a: {test.nop: [
