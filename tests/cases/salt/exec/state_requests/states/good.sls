g1: {test.succeed_with_changes: []}
g2: {test.succeed_without_changes: [{require: [{test: g1}]}]}
g3: {test.nop: [{name: "{{ pillar.get('k', 'nok') }}"}]}
