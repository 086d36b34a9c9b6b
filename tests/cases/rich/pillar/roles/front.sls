include:
  - roles.more:
      key: app:more
app:
  port: 8080
