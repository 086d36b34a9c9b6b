c_of_prod: test.nop
