printf '[user]\n\tname = x\n\temail = y\n[core]\n\teditor = vi\n' > git.ini
printf '[s]\na = 1\n  b = 2\nc = 3\n   more text\nd = 4\n' > cont.ini
printf 'x = 1\ny = 2\n\n[s]\na = 1\n[t]\nb = 1\n' > strict.ini
printf '[s]\na = 1\n\n\n[t]\nb = 1\n\n' > blank.ini
printf '[s]\na=1' > noeol.ini
printf '[s]\n#a = 0\na:1\nb = c = d\nkey with space = v\n' > odd.ini
: > empty.ini
