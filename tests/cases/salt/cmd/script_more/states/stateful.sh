#!/bin/sh
echo
echo changed=yes comment=done
