#!/bin/sh
echo local $*
