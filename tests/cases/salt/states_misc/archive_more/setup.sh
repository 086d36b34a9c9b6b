mkdir -p src/pkg/sub; echo one > src/pkg/a; echo two > src/pkg/sub/b; chmod 750 src/pkg/sub; echo r > src/rootfile
tar -C src -czf p.tgz pkg; tar -C src -cf p.tar pkg; python3 -c "import tarfile
for n, m in (('p.tar.bz2', 'w:bz2'), ('p.txz', 'w:xz')):
    with tarfile.open(n, m) as t: t.add('src/pkg', 'pkg')"
tar -C src -czf multi.tgz pkg rootfile
(cd src && python3 -c "
import zipfile
z=zipfile.ZipFile('../p.zip','w')
for f in ('pkg/a','pkg/sub/b'): z.writestr(zipfile.ZipInfo(f,(2020,1,1,0,0,0)), open(f).read())
z.close()")
echo notarchive > bad.tgz
rm -r src
mkdir -p exists/pkg; echo old > exists/pkg/a
sha256sum p.tgz | cut -d' ' -f1 > h
