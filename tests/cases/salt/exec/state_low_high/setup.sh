printf 'k: {test.succeed_with_changes: []}\n' > t.sls
