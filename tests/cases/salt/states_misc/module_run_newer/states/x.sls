a:
  module.run: [{test.echo: [{text: hi}]}]
b:
  module.run: [{test.arg: [1, two, {k: v}]}]
c:
  module.run: [{test.nosuch: []}]
d:
  module.run: [{test.echo: []}]
e:
  module.run: [{test.ping: []}, {test.echo: [text]}]
f:
  module.run: [{cmd.run: ["exit 3"]}]
g:
  module.run: [{cmd.run_all: [{cmd: "exit 3"}]}]
h:
  module.run: [{test.ping: []}]
i:
  module.run: [{name: test.echo}, {text: old}]
j:
  module.run: [{test.exception: [{message: boo}]}]
k:
  module.wait: [{test.ping: []}, {watch: [{module: a}]}]
l:
  module.run: [{test.false: []}]
m:
  module.run: [{test.kwarg: [{a: 1}, {b: 2}]}]
n:
  module.run: [{test.ping: []}, {nosuch.func: []}]
o:
  module.run: []
r:
  module.run: [{test.ping: null}]
s:
  module.run: [{file.touch: [{name: "@SANDBOX@/q"}]}]
u:
  module.run: [{state.single: [{fun: test.nop}, {name: z}]}]
v:
  module.run: [{grains.get: [id]}, {onchanges: [{module: a}]}]
test.ping:
  module.run: []
w:
  module.run: [{test.echo: [hi]}, {watch: [{module: a}]}]
