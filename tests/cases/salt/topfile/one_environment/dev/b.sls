b_of_dev: test.nop
