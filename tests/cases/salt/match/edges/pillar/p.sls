deep: {a: {b: c}}
