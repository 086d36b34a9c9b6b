printf '127.0.0.1 localhost\n# note\n10.9.9.9\tkeep.test keep # tail\n' > hosts
