#!/bin/sh
# Prints a greeting. Usage: greet.sh [NAME]
name="${1:-World}"
echo "Hello, $nmae!"
