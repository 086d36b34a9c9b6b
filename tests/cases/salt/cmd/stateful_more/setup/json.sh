#!/bin/sh
echo '{"changed": true, "comment": "as json", "n": 1, "deep": {"a": [1]}}'
