workers:
  group.present:
    - gid: 4242

worker:
  user.present:
    - uid: 4242
    - gid: 4242
    - home: /home/worker
    - shell: /bin/sh
    - groups:
      - workers
