#!/usr/bin/env bash
# Makes sure that the pages can be tested in a real browser, and the service with curl: chromium, its driver and curl,
# installed where this machine lets us.
set -euo pipefail

found() {
  { command -v chromium || command -v chromium-browser || command -v google-chrome; } > /dev/null \
    && command -v chromedriver > /dev/null && command -v curl > /dev/null
}

if found; then exit 0; fi

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "Installing chromium and curl, with which pages and service are tested (once) ..."
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || true # an old index may do
  apt-get install -y -qq --no-install-recommends chromium chromium-driver curl > /dev/null
  if found; then exit 0; fi
fi

echo "The tests of the pages and of the service need chromium, chromedriver and curl on the path." >&2
echo "Install them, for example: apt-get install chromium chromium-driver curl (Debian, as root)," >&2
echo "dnf install chromium chromedriver (Fedora), brew install --cask chromium chromedriver (macOS)." >&2
exit 1
