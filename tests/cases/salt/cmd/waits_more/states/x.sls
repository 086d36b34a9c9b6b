src:
  test.succeed_with_changes: []
nosrc:
  test.succeed_without_changes: []
failsrc:
  test.fail_with_changes: []
w1:
  cmd.wait: [{name: "echo w1"}, {watch: [{test: src}]}]
w2:
  cmd.wait: [{name: "echo w2"}, {watch: [{test: nosrc}]}]
w3:
  cmd.wait: [{name: "echo w3; exit 2"}, {watch: [{test: src}]}]
w4:
  cmd.wait: [{name: "echo w4"}, {watch: [{test: failsrc}]}]
w5:
  cmd.wait_script: [{name: "salt://s.sh a"}, {watch: [{test: src}]}]
w6:
  cmd.wait_script: [{name: z}, {source: "salt://s.sh"}, {watch: [{test: nosrc}]}]
w7:
  cmd.run: [{name: "echo w7"}, {watch: [{test: src}]}]
w8:
  cmd.run: [{name: "echo w8"}, {onchanges: [{test: nosrc}]}]
w9:
  cmd.wait: [{name: "echo w9"}]
w10:
  cmd.wait: [{name: "echo 'changed=no comment=x'"}, {stateful: True}, {watch: [{test: src}]}]
w11:
  cmd.script: [{name: "salt://s.sh b"}, {watch: [{test: src}]}]
w12:
  cmd.wait: [{name: "echo $A"}, {env: [{A: 5}]}, {cwd: /}, {watch: [{test: src}]}]
w13:
  cmd.wait: [{name: "touch @SANDBOX@/x"}, {creates: "/etc/passwd"}, {watch: [{test: src}]}]
w14:
  cmd.wait: [{name: "echo u"}, {unless: "true"}, {watch: [{test: src}]}]
