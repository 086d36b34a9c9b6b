shared:
  test.configurable_test_state:
    - changes: True
    - result: True
    - comment: {{ grains['colour'] }} {{ pillar['secret'] | sha256 }}
