base:
  '*':
    - common
    - roles.front
