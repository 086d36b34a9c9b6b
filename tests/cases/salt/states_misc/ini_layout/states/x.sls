a: {ini.options_present: [{name: "@SANDBOX@/git.ini"}, {sections: {user: {email: z, name: w}, core: {editor: ed}}}]}
c: {ini.options_present: [{name: "@SANDBOX@/strict.ini"}, {strict: true}, {sections: {s: {z: 9}, x: 5}}]}
d: {ini.options_present: [{name: "@SANDBOX@/blank.ini"}, {sections: {s: {b: 1}, u: {q: 1}, t: {c: 2}}}]}
e: {ini.options_present: [{name: "@SANDBOX@/noeol.ini"}, {sections: {s: {a: 1, b: 2}}}]}
f: {ini.options_present: [{name: "@SANDBOX@/odd.ini"}, {sections: {s: {a: 3, b: e, "key with space": w}}}]}
g: {ini.options_present: [{name: "@SANDBOX@/empty.ini"}, {sections: {s: {a: 3}}}]}
h: {ini.options_present: [{name: "@SANDBOX@/colon.ini"}, {separator: ":"}, {sections: {s: {a: 3}}}]}
i: {ini.options_absent: [{name: "@SANDBOX@/git.ini"}, {sections: {user: [name]}}]}
j: {ini.sections_absent: [{name: "@SANDBOX@/git.ini"}, {sections: [core]}]}
k: {ini.options_present: [{name: "@SANDBOX@/u.ini"}, {sections: {"S p": {"A b": "x y"}, "UPPER": {Mixed: Case}}}]}
l: {ini.options_present: [{name: "@SANDBOX@/u.ini"}, {sections: {"upper": {mixed: Case}}}]}
