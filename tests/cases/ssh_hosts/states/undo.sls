/srv/site:
  file.absent: []

hello-catena:
  pkg.purged: []

worker:
  user.absent:
    - purge: True

workers:
  group.absent: []

cron:
  service.dead:
    - enable: False
