{% set s = "@SANDBOX@" %}
a: {archive.extracted: [{name: "{{s}}/a/"}, {source: "{{s}}/p.tgz"}]}
a2: {archive.extracted: [{name: "{{s}}/a/"}, {source: "{{s}}/p.tgz"}]}
b: {archive.extracted: [{name: "{{s}}/b"}, {source: "{{s}}/p.zip"}]}
b2: {archive.extracted: [{name: "{{s}}/b"}, {source: "{{s}}/p.zip"}]}
c: {archive.extracted: [{name: "{{s}}/c"}, {source: "{{s}}/p.tar"}, {archive_format: tar}]}
d: {archive.extracted: [{name: "{{s}}/d"}, {source: "{{s}}/p.tar.bz2"}, {options: "v"}]}
e: {archive.extracted: [{name: "{{s}}/e"}, {source: "{{s}}/p.txz"}, {options: "--strip-components=1"}, {enforce_toplevel: False}]}
e2: {archive.extracted: [{name: "{{s}}/e"}, {source: "{{s}}/p.txz"}, {options: "--strip-components=1"}, {enforce_toplevel: False}]}
f: {archive.extracted: [{name: "{{s}}/f"}, {source: "{{s}}/multi.tgz"}]}
g: {archive.extracted: [{name: "{{s}}/g"}, {source: "{{s}}/multi.tgz"}, {enforce_toplevel: False}]}
g2: {archive.extracted: [{name: "{{s}}/g"}, {source: "{{s}}/multi.tgz"}, {enforce_toplevel: False}]}
h: {archive.extracted: [{name: "{{s}}/h_"}, {source: "{{s}}/bad.tgz"}]}
i: {archive.extracted: [{name: "{{s}}/i"}, {source: "{{s}}/nosuch.tgz"}]}
j: {archive.extracted: [{name: "{{s}}/j"}, {source: "{{s}}/p.tgz"}, {source_hash: "sha256=00"}]}
j2: {archive.extracted: [{name: "{{s}}/j"}, {source: "{{s}}/p.tgz"}, {source_hash: "sha256=0000000000000000000000000000000000000000000000000000000000000000"}]}
k: {archive.extracted: [{name: "{{s}}/k"}, {source: "{{s}}/p.tgz"}, {if_missing: "{{s}}/exists"}]}
l: {archive.extracted: [{name: "{{s}}/exists"}, {source: "{{s}}/p.tgz"}]}
m: {archive.extracted: [{name: "{{s}}/exists"}, {source: "{{s}}/p.tgz"}, {overwrite: True}]}
n: {archive.extracted: [{name: "{{s}}/n"}, {source: "{{s}}/p.tgz"}, {list_options: ""}]}
q: {archive.extracted: [{name: "{{s}}/q"}, {source: "{{s}}/p.tgz"}, {trim_output: 1}]}
r: {archive.extracted: [{name: "{{s}}/r"}, {source: "{{s}}/p.tgz"}, {archive_format: rar}]}
s: {archive.extracted: [{name: "{{s}}/s"}, {source: "{{s}}/p.tgz"}, {archive_format: zip}]}
t: {archive.extracted: [{name: "rel/t"}, {source: "{{s}}/p.tgz"}]}
w: {archive.extracted: [{name: "{{s}}/w"}, {source: "{{s}}/p.tgz"}, {clean: True}]}
x: {file.managed: [{name: "{{s}}/w/pkg/extra"}, {contents: e}]}
y: {archive.extracted: [{name: "{{s}}/w"}, {source: "{{s}}/p.tgz"}, {clean: True}, {overwrite: True}]}
z: {archive.extracted: [{name: "{{s}}/z"}, {source: "{{s}}/p.zip"}, {use_cmd_unzip: True}]}
z1: {archive.extracted: [{name: "{{s}}/z1"}, {source: "{{s}}/p.zip"}, {options: "-j"}, {enforce_toplevel: False}]}
z2: {archive.extracted: [{name: "{{s}}/z2"}, {source: "{{s}}/p.tgz"}, {source_hash: "sha256={{ salt['cmd.run']('cat @SANDBOX@/h') }}"}]}
z3: {archive.extracted: [{name: "{{s}}/z3"}, {source: "{{s}}/p.tgz"}, {options: "--exclude=pkg/sub"}]}
z4: {archive.extracted: [{name: "{{s}}/z4"}, {source: "{{s}}/p.tgz"}, {clean_parent: True}]}
z5: {archive.extracted: [{name: "{{s}}/bad.tgz"}, {source: "{{s}}/p.tgz"}]}
z8: {archive.extracted: [{name: "{{s}}/z8"}, {source: ["{{s}}/nosuch.tgz", "{{s}}/p.tgz"]}]}
z9: {archive.extracted: [{name: "{{s}}/z9"}, {source: "{{s}}/p.tgz"}, {extract_perms: False}, {keep_source: False}, {password: x}]}
