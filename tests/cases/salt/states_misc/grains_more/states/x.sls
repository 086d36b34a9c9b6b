a: {grains.present: [{name: new}, {value: 1}]}
a2: {grains.present: [{name: new}, {value: 1}]}
b: {grains.present: [{name: "deep:er:key"}, {value: z}]}
b2: {grains.present: [{name: "deep:er:other"}, {value: z2}]}
c: {grains.present: [{name: new}, {value: {a: 1}}]}
c2: {grains.present: [{name: new}, {value: {a: 1}}, {force: True}]}
d: {grains.present: [{name: l}, {value: [1, 2]}]}
d2: {grains.present: [{name: l}, {value: [1, 3]}]}
e: {grains.list_present: [{name: roles}, {value: web}]}
e2: {grains.list_present: [{name: roles}, {value: web}]}
e3: {grains.list_present: [{name: roles}, {value: [db, web]}]}
f: {grains.list_present: [{name: new}, {value: web}]}
g: {grains.list_absent: [{name: roles}, {value: web}]}
g2: {grains.list_absent: [{name: roles}, {value: web}]}
g3: {grains.list_absent: [{name: noroles}, {value: web}]}
g4: {grains.list_absent: [{name: roles}, {value: [db, zz]}]}
h: {grains.append: [{name: app}, {value: q}]}
h2: {grains.append: [{name: app}, {value: q}, {convert: True}]}
h5: {grains.append: [{name: new}, {value: q}, {convert: True}]}
i: {grains.absent: [{name: new}]}
i2: {grains.absent: [{name: new}, {destructive: True}]}
i3: {grains.absent: [{name: nosuch}]}
i4: {grains.absent: [{name: "deep:er:key"}]}
i5: {grains.absent: [{name: "deep:er"}, {force: True}]}
i6: {grains.absent: [{name: roles}]}
j: {grains.present: [{name: "deep"}, {value: flat}]}
l: {grains.present: [{name: "d:x:y"}, {value: 2}]}
m: {grains.present: [{name: "g1:sub"}, {value: 2}]}
n: {grains.list_present: [{name: "d:x:l"}, {value: [2]}]}
p: {grains.present: [{name: nul}, {value: null}]}
q: {grains.exists: [{name: new}]}
s: {grains.absent: [{name: "d"}]}
