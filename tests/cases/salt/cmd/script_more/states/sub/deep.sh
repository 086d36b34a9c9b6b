#!/bin/sh
echo deep
