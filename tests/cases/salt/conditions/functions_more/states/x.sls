a1: {test.nop: [{onlyif: "true"}]}
a2: {test.nop: [{onlyif: "false"}]}
a3: {test.nop: [{onlyif: ["true", "false"]}]}
a4: {test.nop: [{unless: ["true", "false"]}]}
a5: {test.nop: [{unless: ["true", "true"]}]}
a6: {test.nop: [{unless: "false"}, {onlyif: "false"}]}
a7: {test.nop: [{unless: "true"}, {onlyif: "false"}]}
a8: {test.nop: [{onlyif: [{fun: test.true}]}]}
a9: {test.nop: [{onlyif: [{fun: test.false}]}]}
a10: {test.nop: [{unless: [{fun: test.echo, args: [""]}]}]}
a11: {test.nop: [{unless: [{fun: test.echo, args: ["x"]}]}]}
a12: {test.nop: [{onlyif: [{fun: match.grain, tgt: "id:oracle*"}]}]}
a13: {test.nop: [{onlyif: [{fun: match.grain, tgt: "id:no*"}]}]}
a14: {test.nop: [{onlyif: [{fun: config.get, args: [id], get_return: 0}]}]}
a15: {test.nop: [{onlyif: [{fun: test.arg_clean, args: [a], k: v, get_return: kwargs}]}]}
a16: {test.nop: [{onlyif: [{fun: nosuch.fun}]}]}
a17: {test.nop: [{onlyif: [{fun: test.exception}]}]}
a19: {test.nop: [{onlyif: 5}]}
a20: {test.nop: [{onlyif: null}]}
a21: {test.nop: [{onlyif: ""}]}
a22: {test.nop: [{unless: ""}]}
a23: {test.nop: [{onlyif: {fun: test.false}}]}
a24: {test.nop: [{unless: {fun: test.true}}]}
a25: {test.nop: [{onlyif: "test -f f"}, {cwd: "@SANDBOX@"}]}
a26: {cmd.run: [{name: echo x}, {onlyif: "test -f f"}, {cwd: "@SANDBOX@"}]}
a27: {cmd.run: [{name: echo x}, {onlyif: 'test "$A" = 1'}, {env: [{A: 1}]}]}
a29: {cmd.run: [{name: echo x}, {onlyif: 'exit 3'}, {success_retcodes: [3]}]}
a32: {test.nop: [{onlyif: [{fun: file.file_exists, path: "@SANDBOX@/f"}]}]}
a33: {test.nop: [{unless: [{fun: file.file_exists, path: "@SANDBOX@/f"}, {fun: test.false}]}]}
a34: {test.nop: [{onlyif: [{fun: cmd.retcode, args: ["exit 3"], python_shell: true}]}]}
a35: {test.nop: [{onlyif: [{fun: cmd.run, cmd: "true"}]}]}
a36: {test.nop: [{onlyif: nosuchcommand-zz}]}
a37: {test.nop: [{unless: nosuchcommand-zz}]}
a38: {test.nop: [{onlyif: [{fun: test.collatz, start: 3}]}]}
a39: {test.nop: [{onlyif: ["true", {fun: test.false}]}]}
a40: {test.nop: [{unless: ["true", {fun: test.false}]}]}
a41: {test.nop: [{onlyif: [{fun: test.echo}]}]}
a42: {test.nop: [{onlyif: [{fun: test.arg, args: notalist}]}]}
a43: {test.nop: [{onlyif: [{fun: test.ping, __kwarg__: 1}]}]}
a44: {test.nop: [{shell: /bin/bash}, {onlyif: '[[ 1 == 1 ]]'}]}
