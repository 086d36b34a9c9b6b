include: ['mo*']
base:
  '*': [a, {dev: d}]
  'oracle*': [c]
