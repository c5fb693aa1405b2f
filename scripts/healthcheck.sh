#!/bin/sh
# Docker's HEALTHCHECK: healthy if the service of this container answers, or if it serves nothing (a fit, say).
set -eu
arguments=$(tr '\0' '\n' < /proc/1/cmdline)
echo "$arguments" | grep -qx serve || exit 0
port=$(echo "$arguments" | sed -n '/^--port$/{n;p;}; s/^--port=//p' | head -n 1)
exec python -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=4)' \
    "http://127.0.0.1:${port:-8000}/health/live"
