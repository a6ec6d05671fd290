#!/bin/sh
# The parameters are one line of JSON on standard input.
read -r parameters || [ -n "$parameters" ] || exit 1
echo "hello: $parameters"
