#!/usr/bin/env bash
# Makes sure that Spark's ALS can be tested: Java 17 or newer, installed where this machine lets us.
set -euo pipefail

version() {
  local java="java"
  if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; fi
  "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

found="$(version || true)"
if [ "${found:-0}" -ge 17 ]; then exit 0; fi

if [ -z "${JAVA_HOME:-}" ] && [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "Installing Java 17, which the tests of Spark's ALS need (once) ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || true # an old index may do
  if apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless > /dev/null; then exit 0; fi
  # Newer releases have left Java 17 behind.
  apt-get install -y -qq --no-install-recommends default-jre-headless > /dev/null
  exit 0
fi

echo "The tests of Spark's ALS need Java 17 or newer, but here is ${found:+Java }${found:-none}." >&2
echo "Install it, for example: apt-get install openjdk-17-jre-headless (Debian, Ubuntu, as root)," >&2
echo "dnf install java-17-openjdk-headless (Fedora), brew install openjdk@17 (macOS); then set JAVA_HOME" >&2
echo "if it is not on the path." >&2
exit 1
