a: {test.nop: [{require: [{test: b}]}]}
b: {test.succeed_with_changes: []}
c: {test.fail_without_changes: []}
d: {cmd.run: [{name: "echo {{ pillar.get('k') }}"}]}
