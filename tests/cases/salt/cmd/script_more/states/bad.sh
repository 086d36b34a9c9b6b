#!/bin/sh
echo {{ undefinedvar }}
