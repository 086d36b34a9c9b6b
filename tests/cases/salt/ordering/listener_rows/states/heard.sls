src2:
  test.succeed_with_changes:
    - listen_in:
      - test: last
      - test: first
src1:
  test.succeed_with_changes:
    - listen_in:
      - test: mid
first:
  test.nop
mid:
  test.nop:
    - listen:
      - test: src2
late:
  test.nop:
    - order: last
    - listen:
      - test: src1
last:
  test.nop
early:
  test.nop:
    - order: 1
    - listen:
      - test: src1
