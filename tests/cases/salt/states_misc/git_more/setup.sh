export HOME=$PWD/../home GIT_CONFIG_NOSYSTEM=1
git config --global init.defaultBranch master; git config --global protocol.file.allow always; git config --global user.email a@b; git config --global user.name n
git init -q src; cd src; echo one > f; git add f; git commit -qm one; git tag v1; git branch dev; echo two > f; git commit -qam two; git checkout -q dev; echo dev > d; git add d; git commit -qm dev; git checkout -q master; cd ..
git init -q --bare bare0
mkdir notrepo; echo x > notrepo/file; echo y > afile
git clone -q src dirty; echo local > dirty/f
git clone -q src cfg
