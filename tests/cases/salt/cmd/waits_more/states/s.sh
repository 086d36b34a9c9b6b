#!/bin/sh
echo waited $*
