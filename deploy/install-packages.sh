#!/usr/bin/env bash
# Installs the Debian packages of the named sections of packages.txt.
#
#   deploy/install-packages.sh build test        install what is missing
#   deploy/install-packages.sh --list build      only print the names
#   deploy/install-packages.sh --missing build   only print what is missing
#
# Needs nothing when all are there; otherwise root, or sudo.  Recommended
# packages stay out, and no service of an installed package is started.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
action=install
case ${1-} in
  --list | --missing) action=${1#--} && shift ;;
esac
if [ $# -eq 0 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

names_of() { # section
  awk -v want="[$1]" '
    { sub(/[ \t]*#.*/, "") }
    /^\[/ { inside = ($1 == want); found = found || inside; next }
    inside && NF { print $1 }
    END { exit !found }' "$here/packages.txt" ||
    { echo "install-packages: no section [$1] in packages.txt" >&2; exit 2; }
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

packages=()
for section in "$@"; do
  names=$(names_of "$section")
  while read -r name; do packages+=("$name"); done <<<"$names"
done
if [ "$action" = list ]; then
  printf '%s\n' "${packages[@]}"
  exit
fi

missing=()
find_missing() {
  missing=()
  local name
  for name in "${packages[@]}"; do
    is_installed "$name" || missing+=("$name")
  done
}
find_missing
if [ "$action" = missing ]; then
  [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"
  exit
fi
if [ ${#missing[@]} -eq 0 ]; then
  exit
fi

if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null; then
    exec sudo -- "$here/install-packages.sh" "$@"
  fi
  echo "install-packages: neither root nor sudo; please install:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

# One at a time: two of us would restore each other's policy.
exec 9</var/lib/dpkg
flock 9
find_missing
if [ ${#missing[@]} -eq 0 ]; then
  exit
fi
echo "install-packages: ${missing[*]}"

# While this file says 101, package scripts leave their services alone.
policy=/usr/sbin/policy-rc.d
saved=$policy.before-attnd
restore() {
  if grep -qs "^# attnd" "$policy"; then rm -f "$policy"; fi
  if [ -e "$saved" ] || [ -L "$saved" ]; then mv "$saved" "$policy"; fi
}
restore # what a killed run may have left
if [ -e "$policy" ] || [ -L "$policy" ]; then mv "$policy" "$saved"; fi
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
printf '#!/bin/sh\n# attnd: install-packages.sh is running\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt() {
  apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null 9<&-
}
# apt's own timeout covers dpkg's lock only; another apt-get may hold the lock
# of the lists or of the downloads.
retry() {
  local try
  for try in 1 2 3 4 5 6; do
    if "$@"; then return; fi
    if [ "$try" -lt 6 ]; then
      echo "install-packages: trying again in 10 s" >&2
      sleep 10
    fi
  done
  return 1
}

# A foreign source that does not answer must not stop us: installing decides.
retry apt update || echo "install-packages: the package lists are old" >&2
apt --simulate install --no-install-recommends "${missing[@]}" >/dev/null
retry apt install --no-install-recommends --yes "${missing[@]}"

find_missing
if [ ${#missing[@]} -ne 0 ]; then
  echo "install-packages: still missing: ${missing[*]}" >&2
  exit 1
fi
