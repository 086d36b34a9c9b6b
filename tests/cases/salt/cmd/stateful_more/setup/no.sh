#!/bin/sh
echo "changed=no comment='nothing to do'"
