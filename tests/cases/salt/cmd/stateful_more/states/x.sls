a_yes:
  cmd.run: [{name: "echo; echo \"changed=yes comment='did it' extra=5\""}, {stateful: True}]
b_no:
  cmd.run: [{name: "sh @SANDBOX@/no.sh"}, {stateful: True}]
c_json:
  cmd.run: [{name: "@SANDBOX@/json.sh"}, {stateful: True}]
d_list:
  cmd.run:
    - name: "@SANDBOX@/no.sh"
    - stateful:
      - test_name: "@SANDBOX@/t.sh"
e_dict:
  cmd.run:
    - name: "@SANDBOX@/no.sh"
    - stateful: {test_name: "@SANDBOX@/no.sh"}
f_failing:
  cmd.run: [{name: "@SANDBOX@/failing.sh"}, {stateful: True}]
g_empty:
  cmd.run: [{name: "true"}, {stateful: True}]
h_empty_fail:
  cmd.run: [{name: "echo bad >&2; false"}, {stateful: True}]
i_garbage:
  cmd.run: [{name: "echo garbage here"}, {stateful: True}]
j_garbage2:
  cmd.run: [{name: "echo a=1 b=2"}, {stateful: True}]
m_jsonno:
  cmd.run: [{name: "echo '{\"changed\": false, \"comment\": \"x\"}'"}, {stateful: True}]
n_json_multi:
  cmd.run: [{name: "printf '{\"changed\": true,\\n \"comment\": \"x\"}\\n'"}, {stateful: True}]
o_quote:
  cmd.run: [{name: "echo \"changed=yes comment=don't\""}, {stateful: True}]
p_True:
  cmd.run: [{name: "echo changed=True comment=caps"}, {stateful: True}]
q_1:
  cmd.run: [{name: "echo changed=1 comment=one"}, {stateful: True}]
s_str:
  cmd.run: [{name: "echo changed=yes"}, {stateful: "yes"}]
t_JSONTRUE:
  cmd.run: [{name: "echo '{\"changed\": \"no\", \"comment\": \"strno\"}'"}, {stateful: True}]
u_test_name_fail:
  cmd.run: [{name: "echo hi"}, {stateful: [{test_name: "sh -c 'exit 2'"}]}]
w_nocomment:
  cmd.run: [{name: "echo changed=yes"}, {stateful: True}]
x_changes_key:
  cmd.run: [{name: "echo '{\"changed\": true, \"changes\": {\"q\": 1}, \"result\": false}'"}, {stateful: True}]
