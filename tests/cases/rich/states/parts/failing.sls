exclude:
  - id: excluded

fails:
  test.fail_with_changes: []

excluded: test.fail_without_changes

unavailable: nosuch.thing

rescue:
  test.nop:
    - onfail:
      - test: fails
    - order: -3

depends:
  rich.present:
    - require_any:
      - test: fails
      - test: shared
    - require:
      - test: 'fail*'
      - nosuch: unavailable

guarded:
  test.succeed_with_changes:
    - unless:
      - fun: rich.shout
        word: x
    - onlyif: 'false'
