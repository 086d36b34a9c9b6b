a_fail:
  cmd.run: [{name: "echo out; echo err >&2; exit 3"}]
b_retcodes:
  cmd.run: [{name: "exit 3"}, {success_retcodes: [3, 4]}]
b_retcode_int:
  cmd.run: [{name: "exit 3"}, {success_retcodes: 3}]
b_retcode_str:
  cmd.run: [{name: "exit 3"}, {success_retcodes: ["3"]}]
b_retcode_zero:
  cmd.run: [{name: "true"}, {success_retcodes: [3]}]
c_stdout:
  cmd.run: [{name: "echo good; exit 3"}, {success_stdout: [good]}]
c_stdout_str:
  cmd.run: [{name: "echo good; exit 3"}, {success_stdout: good}]
c_stdout_miss:
  cmd.run: [{name: "echo bad; exit 3"}, {success_stdout: [good]}]
d_stderr:
  cmd.run: [{name: "echo good >&2; exit 3"}, {success_stderr: [good]}]
e_hide:
  cmd.run: [{name: "echo secret; echo sec2 >&2"}, {hide_output: True}]
e_hide_fail:
  cmd.run: [{name: "echo secret; exit 2"}, {hide_output: True}]
f_quiet:
  cmd.run: [{name: "echo loud"}, {output_loglevel: quiet}]
f_level:
  cmd.run: [{name: "echo loud"}, {output_loglevel: debug}]
f_level_bad:
  cmd.run: [{name: "echo loud"}, {output_loglevel: nosuch}]
h_stdin:
  cmd.run: [{name: "cat"}, {stdin: "given"}]
j_multi:
  cmd.run:
    - name: |
        echo one
        echo two
k_trail:
  cmd.run: [{name: "printf 'a\\n\\n'"}]
l_rstrip:
  cmd.run: [{name: "printf '  a  \\n\\n'"}, {rstrip: False}]
n_redirect:
  cmd.run: [{name: "echo out; echo err >&2"}, {redirect_stderr: True}]
o_signal:
  cmd.run: [{name: "kill -9 $$"}]
q_empty:
  cmd.run: [{name: ""}]
r_creates:
  cmd.run: [{name: "touch @SANDBOX@/made"}, {creates: "@SANDBOX@/made"}]
r_creates_again:
  cmd.run: [{name: "touch @SANDBOX@/made"}, {creates: "@SANDBOX@/made"}]
r_creates_list:
  cmd.run: [{name: "touch @SANDBOX@/made2"}, {creates: ["@SANDBOX@/made", "@SANDBOX@/made2"]}]
r_creates_list2:
  cmd.run: [{name: "touch @SANDBOX@/made2"}, {creates: ["@SANDBOX@/made", "@SANDBOX@/made2"]}]
t_success_all:
  cmd.run: [{name: "echo x; exit 5"}, {success_retcodes: [5]}, {success_stdout: [y]}]
