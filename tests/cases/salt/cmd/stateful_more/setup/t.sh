#!/bin/sh
echo "some line"
echo "changed=yes comment='would do it' a=1"
