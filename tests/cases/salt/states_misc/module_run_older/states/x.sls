a:
  module.run: [{name: test.echo}, {text: hi}]
b:
  module.run: [{name: test.arg}, {args: [1, two]}, {kwargs: {k: v}}]
c:
  module.run: [{name: test.nosuch}]
e:
  module.run: [{name: test.false}]
f:
  module.run: [{name: cmd.run}, {cmd: "exit 3"}]
g:
  module.run: [{name: cmd.retcode}, {cmd: "exit 3"}]
h:
  module.run: [{name: cmd.run_all}, {cmd: "exit 3"}]
i:
  module.run: [{name: test.kwarg}, {foo: 1}, {bar: [1, 2]}]
j:
  module.run: [{name: file.touch}, {m_name: "@SANDBOX@/t"}]
k:
  module.run: [{name: test.exception}, {message: boo}]
l:
  module.wait: [{name: test.ping}, {watch: [{module: b}]}]
m:
  module.wait: [{name: test.ping}]
n:
  module.run: [{name: test.ping}, {onchanges: [{module: b}]}]
o:
  module.run: [{name: test.ping}, {unless: "true"}]
q:
  module.run: [{name: test.outputter}, {data: x}]
s:
  module.run: [{name: grains.get}, {key: id}]
u:
  module.run: [{name: test.retcode}, {code: 3}]
v:
  module.run: [{name: ping}]
w:
  module.run: [{name: test.echo}, {text: hi}, {watch: [{module: b}]}]
x:
  module.run: [{name: test.ping}, {reload_modules: True}]
y:
  module.run: [{name: test.sleep}, {length: 0}]
