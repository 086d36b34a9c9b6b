{% set s = "@SANDBOX@" %}
a: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/a"}]}
a2: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/a"}]}
b: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/b"}, {rev: dev}]}
b2: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/b"}, {rev: v1}]}
b3: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/b"}, {rev: v1}, {force_reset: True}]}
c: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/c"}, {rev: nosuch}]}
d: {git.latest: [{name: "{{s}}/nosuch"}, {target: "{{s}}/d"}]}
e: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/notrepo"}]}
e2: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/notrepo"}, {force_clone: True}]}
f: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/dirty"}]}
f2: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/dirty"}, {force_reset: True}]}
g: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/g"}, {bare: True}]}
i: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/i"}, {branch: mine}]}
l: {git.latest: [{name: "{{s}}/src"}, {target: "{{s}}/l"}, {rev: HEAD}, {branch: x}]}
m: {git.latest: [{name: "{{s}}/src"}, {target: "rel"}]}
n: {git.cloned: [{name: "{{s}}/src"}, {target: "{{s}}/n"}]}
n2: {git.cloned: [{name: "{{s}}/src"}, {target: "{{s}}/n"}]}
n3: {git.cloned: [{name: "{{s}}/src"}, {target: "{{s}}/n"}, {branch: dev}]}
o: {git.present: [{name: "{{s}}/o"}]}
o2: {git.present: [{name: "{{s}}/o"}]}
o3: {git.present: [{name: "{{s}}/o3"}, {bare: False}]}
o4: {git.present: [{name: "{{s}}/notrepo2/x"}]}
p: {git.detached: [{name: "{{s}}/src"}, {target: "{{s}}/p"}, {rev: v1}]}
p2: {git.detached: [{name: "{{s}}/src"}, {target: "{{s}}/p"}, {rev: v1}]}
q: {git.config_set: [{name: user.name}, {value: X}, {repo: "{{s}}/cfg"}]}
q2: {git.config_set: [{name: user.name}, {value: X}, {repo: "{{s}}/cfg"}]}
q3: {git.config_set: [{name: user.email}, {multivar: [a, b]}, {repo: "{{s}}/cfg"}]}
q4: {git.config_set: [{name: core.x}, {value: 5}, {global: True}]}
q5: {git.config_set: [{name: nodot}, {value: 5}, {repo: "{{s}}/cfg"}]}
r3: {git.config_unset: [{name: user.email}, {repo: "{{s}}/cfg"}]}
