a: {test.nop: [{name: {{ nope }}}]}
