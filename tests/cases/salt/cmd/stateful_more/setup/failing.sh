#!/bin/sh
echo "changed=yes comment='bad end'"
exit 3
