b1: {test.nop: [{creates: "@SANDBOX@/f"}]}
b2: {test.nop: [{creates: "@SANDBOX@/g"}]}
b3: {test.nop: [{creates: ["@SANDBOX@/f", "@SANDBOX@/g"]}]}
b4: {test.nop: [{creates: ["@SANDBOX@/f", "@SANDBOX@/f"]}]}
b5: {cmd.run: [{name: "touch @SANDBOX@/z"}, {creates: "@SANDBOX@/z"}]}
b6: {cmd.run: [{name: "touch @SANDBOX@/z"}, {creates: "@SANDBOX@/z"}]}
b8: {test.nop: [{creates: "relative"}]}
b9: {test.nop: [{creates: null}]}
c1: {test.nop: [{check_cmd: "true"}]}
c2: {test.nop: [{check_cmd: "false"}]}
c3: {test.nop: [{check_cmd: ["true", "false"]}]}
c4: {test.fail_without_changes: [{check_cmd: "true"}]}
c5: {test.fail_with_changes: [{check_cmd: ["true"]}]}
c6: {test.succeed_with_changes: [{check_cmd: "exit 2"}]}
c7: {cmd.run: [{name: "exit 1"}, {check_cmd: "true"}]}
c8: {cmd.run: [{name: "true"}, {check_cmd: "false"}]}
c9: {test.nop: [{check_cmd: "false"}, {unless: "true"}]}
c10: {test.nop: [{check_cmd: [{fun: test.false}]}]}
c11: {test.nop: [{check_cmd: ""}]}
c12: {file.managed: [{name: "@SANDBOX@/m"}, {contents: x}, {check_cmd: "grep -q x"}]}
c13: {file.managed: [{name: "@SANDBOX@/m2"}, {contents: x}, {check_cmd: "grep -q y"}]}
d1: {test.fail_without_changes: [{retry: {attempts: 2, interval: 0}}]}
d2: {test.succeed_without_changes: [{retry: {attempts: 2, interval: 0, until: False}}]}
d3: {cmd.run: [{name: "test -f @SANDBOX@/n || { touch @SANDBOX@/n; exit 1; }"}, {retry: {attempts: 3, interval: 0}}]}
d4: {test.nop: [{retry: True}]}
d5: {test.fail_without_changes: [{retry: {attempts: 1}}]}
e1: {test.fail_without_changes: [{failhard: False}]}
e2: {test.nop: [{fire_event: True}]}
e3: {test.nop: [{reload_grains: True}, {reload_pillar: True}, {reload_modules: True}]}
e6: {cmd.run: [{name: "umask"}, {umask: "027"}]}
e7: {test.nop: [{aggregate: True}]}
e8: {cmd.run: [{name: "echo x"}, {order: last}]}
e9: {test.nop: [{random_unknown: 1}]}
