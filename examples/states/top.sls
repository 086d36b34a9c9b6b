base:
  '*':
    - base
    - greeter
  'role:web':
    - match: grain
    - web
  'role:db':
    - match: grain
    - db
