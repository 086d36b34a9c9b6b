site: the demo's machine room
greeting: Hello after the reboot
fleet:
  - {name: web1, address: 10.0.0.11}
  - {name: web2, address: 10.0.0.12}
  - {name: db1, address: 10.0.0.21}
