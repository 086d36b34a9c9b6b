a_list_dicts:
  cmd.run: [{name: 'echo "$A-$B"'}, {env: [{A: one}, {B: 2}]}]
b_dict:
  cmd.run:
    - name: 'echo "$A-$B"'
    - env:
        A: one
        B: true
c_str:
  cmd.run: [{name: 'echo "$A"'}, {env: "A=1"}]
e_null:
  cmd.run: [{name: 'echo "x${A}y"'}, {env: [{A: null}]}]
g_float:
  cmd.run: [{name: 'echo $A $B'}, {env: [{A: 1.5}, {B: 08}]}]
h_prepend:
  cmd.run: [{name: 'echo $PATH | cut -d: -f1'}, {prepend_path: /opt/x}]
j_list_in_value:
  cmd.run: [{name: 'echo $A'}, {env: [{A: [1, 2]}]}]
l_bad_kind:
  cmd.run: [{name: 'echo ok'}, {env: 5}]
o_lang:
  cmd.run: [{name: 'echo "$LANG $LC_ALL $LC_NUMERIC"'}]
