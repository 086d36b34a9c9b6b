b: test.nop
