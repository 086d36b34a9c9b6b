#!/bin/sh
echo script:$0 args:$* pwd:$(pwd) A=$A >&1
exit ${CODE:-0}
