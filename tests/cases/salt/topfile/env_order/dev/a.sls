a_of_dev: test.nop
