base:
  '*': [one, sub]
  'nomatch*': [two]
