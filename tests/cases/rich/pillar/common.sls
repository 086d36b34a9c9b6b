app:
  port: 1
  packages: [three, two]
secret: {{ grains['id'] }}
