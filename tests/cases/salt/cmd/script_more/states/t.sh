#!/bin/sh
echo {{ who }} {{ more }} {{ grains.id }} $1
