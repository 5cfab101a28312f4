#!/usr/bin/env bash
# Installs the two XMPP servers that `npm run test:xmpp` starts for itself, and a client of another make. No system service is started or left enabled.
set -euo pipefail
missing=()
for package in prosody ejabberd openssl python3-slixmpp; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

# The packages would start their services: a policy of ours says no for as long as the installation takes.
policy=/usr/sbin/policy-rc.d
own_policy=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  own_policy=yes
fi
trap '[ -z "$own_policy" ] || rm -f "$policy"' EXIT

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
