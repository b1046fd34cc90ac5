#!/bin/sh
# retry COMMAND..: runs a command until it succeeds, for about 20 seconds: the other side may not listen yet.
for _ in $(seq 100); do
    "$@" && exit 0
    usleep 200000
done
exit 1
