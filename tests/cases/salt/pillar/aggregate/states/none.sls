x: test.nop
