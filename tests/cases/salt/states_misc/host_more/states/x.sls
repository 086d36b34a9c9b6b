a: {host.present: [{ip: 10.1.1.1}, {name: h1.test}]}
a2: {host.present: [{ip: 10.1.1.1}, {name: h1.test}]}
b: {host.present: [{ip: [10.1.1.2, 10.1.1.3]}, {names: [h2.test, h3.test]}]}
c: {host.present: [{ip: 10.1.1.9}, {name: h1.test}]}
d: {host.present: [{ip: 10.1.1.9}, {name: h1.test}, {clean: True}]}
f: {host.absent: [{name: h2.test}, {ip: [10.1.1.2]}]}
g: {host.only: [{name: 10.1.1.9}, {hostnames: [x.test, y.test]}]}
g2: {host.only: [{name: 10.1.1.9}, {hostnames: [x.test, y.test]}]}
g3: {host.only: [{name: 10.1.1.50}, {hostnames: z.test}]}
h: {host.present: [{ip: 10.1.1.60}, {name: cm.test}, {comment: a note}]}
h2: {host.present: [{ip: 10.1.1.60}, {name: cm.test}, {comment: other}]}
i: {host.present: [{name: noip}, {ip: []}]}
k: {host.present: [{ip: "fe80::1"}, {name: six.test}]}
l: {host.absent: [{ip: 10.1.1.1}, {names: [nope.test]}]}
m: {host.present: [{ip: 10.1.1.60}, {name: cm2.test}]}
