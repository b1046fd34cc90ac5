#!/bin/sh
# rshd: one connection of rsh: the command is its first line.
read -r command && exec sh -c "$command"
