base:
  '*':
    - common
  'old*':
    - old
