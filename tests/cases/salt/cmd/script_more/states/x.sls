a:
  cmd.script: [{name: "salt://s.sh one 'two three'"}, {cwd: /usr}, {env: [{A: x}]}]
b:
  cmd.script: [{name: anything}, {source: "salt://s.sh"}, {args: "x y"}, {cwd: /}]
c:
  cmd.script: [{name: "salt://t.sh"}, {template: jinja}, {context: {who: me}}, {defaults: {who: you, more: them}}, {args: "q"}, {cwd: /}]
d_fail:
  cmd.script: [{name: "salt://s.sh"}, {env: [{CODE: 4}]}, {cwd: /}]
d_ok_code:
  cmd.script: [{name: "salt://s.sh"}, {env: [{CODE: 4}]}, {cwd: /}, {success_retcodes: [4]}]
e_missing:
  cmd.script: [{name: "salt://nope.sh"}]
f_badtemplate:
  cmd.script: [{name: "salt://bad.sh"}, {template: jinja}]
g_local:
  cmd.script: [{name: "@SANDBOX@/local.sh a b"}]
g_local_src:
  cmd.script: [{name: "run it"}, {source: "@SANDBOX@/local.sh"}]
h_py:
  cmd.script: [{name: "salt://py.py a 'b c'"}]
i_noshebang:
  cmd.script: [{name: "salt://noshebang.txt z"}]
j_stateful:
  cmd.script: [{name: "salt://stateful.sh"}, {stateful: True}]
l_shell:
  cmd.script: [{name: "salt://noshebang.txt"}, {shell: /bin/bash}]
m_creates:
  cmd.script: [{name: "salt://s.sh"}, {creates: /etc/passwd}]
n_hide:
  cmd.script: [{name: "salt://sub/deep.sh"}, {hide_output: True}]
o_args_list:
  cmd.script: [{name: "salt://py.py"}, {args: [a, 1]}]
q_cwd_missing:
  cmd.script: [{name: "salt://s.sh"}, {cwd: "@SANDBOX@/none"}]
r_saltenv:
  cmd.script: [{name: "salt://s.sh?saltenv=base"}, {cwd: /}]
s_missing_local:
  cmd.script: [{name: "@SANDBOX@/none/x.sh"}]
t_stdin:
  cmd.script: [{name: "salt://s.sh"}, {stdin: x}, {cwd: /}]
v_quiet:
  cmd.script: [{name: "salt://sub/deep.sh"}, {output_loglevel: quiet}]
