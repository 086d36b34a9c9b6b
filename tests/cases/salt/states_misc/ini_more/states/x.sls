a:
  ini.options_present: [{name: "@SANDBOX@/a.ini"}, {sections: {main: {one: 1, two: 5, new: n}, fresh: {k: v}}}]
a2:
  ini.options_present: [{name: "@SANDBOX@/a.ini"}, {sections: {main: {one: 1, two: 5, new: n}, fresh: {k: v}}}]
b:
  ini.options_absent: [{name: "@SANDBOX@/a.ini"}, {sections: {main: [two, nosuch], nosect: [q]}}]
b2:
  ini.options_absent: [{name: "@SANDBOX@/a.ini"}, {sections: {main: [two]}}]
d:
  ini.sections_absent: [{name: "@SANDBOX@/a.ini"}, {sections: [other, nosuch]}]
d2:
  ini.sections_absent: [{name: "@SANDBOX@/a.ini"}, {sections: [other]}]
e:
  ini.options_present: [{name: "@SANDBOX@/new.ini"}, {sections: {s: {a: 1, b: two}}}]
f:
  ini.options_present: [{name: "@SANDBOX@/a.ini"}, {strict: True}, {sections: {main: {one: 9}}}]
g:
  ini.options_present: [{name: "@SANDBOX@/nosep.ini"}, {separator: " "}, {sections: {s: {k: w, l: m}}}]
h:
  ini.options_present: [{name: "@SANDBOX@/crlf.ini"}, {sections: {s: {a: 2}}}]
i:
  ini.options_present: [{name: "@SANDBOX@/dup.ini"}, {sections: {s: {a: 3}}}]
j:
  ini.options_present: [{name: "@SANDBOX@/sp.ini"}, {sections: {s: {indented: 2, b: 3, c: 4}}}]
l:
  ini.options_present: [{name: "@SANDBOX@/top.ini"}, {sections: {DEFAULT_IMPLICIT: {q: 1}}}]
l2:
  ini.options_present: [{name: "@SANDBOX@/top.ini"}, {sections: {q: 1, r: z}}]
q:
  ini.options_present: [{name: "@SANDBOX@/a.ini"}]
