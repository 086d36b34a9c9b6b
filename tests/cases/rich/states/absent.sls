nobody gets this: test.fail_without_changes
