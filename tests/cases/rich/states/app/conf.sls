conf file:
  file.managed:
    - name: /srv/rich/{{ grains['id'] }}.conf
    - contents: plain
    - makedirs: True
    - prereq_in:
      - test: after conf

after conf:
  test.succeed_with_changes:
    - onchanges:
      - id: shared
    - use:
      - test: shared
