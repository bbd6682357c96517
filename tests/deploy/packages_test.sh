#!/usr/bin/env bash
# Every package of deploy/packages.txt must come from Debian 12 (bookworm)
# itself.  Machines may offer newer releases as well, and those drag in another
# libc.  Exit 77 (skipped) where apt knows no bookworm list.
#
# usage: packages_test.sh REPOSITORY
set -euo pipefail
root=$1
export LC_ALL=C

if ! command -v apt-cache >/dev/null ||
  ! apt-cache policy | grep -q 'n=bookworm[,-]'; then
  echo "skipped: no bookworm package lists here (apt-get update fetches them)"
  exit 77
fi

mapfile -t packages < <(
  "$root/deploy/install-packages.sh" --list build test tools runtime)
[ ${#packages[@]} -ge 20 ] || { echo "only ${#packages[@]} packages"; exit 1; }

duplicates=$(printf '%s\n' "${packages[@]}" | sort | uniq -d)
if [ -n "$duplicates" ]; then
  echo "listed twice: $duplicates"
  exit 1
fi

# For each package: the candidate, the installed version, and the versions that
# bookworm offers, out of the version table of apt-cache policy:
#    *** 1.2-3 500
#           500 http://... bookworm/main amd64 Packages
bad=$(apt-cache policy "${packages[@]}" | awk '
  function close_package() {
    if (name == "") return
    seen++
    if (offered == "") {
      print name ": not in bookworm"
    } else if (candidate == installed) {
      # An installed version may have left the lists since; then at least its
      # upstream version must be the one of bookworm.
      if (!(candidate in versions) && !(upstream(candidate) in upstreams))
        print name ": " candidate " is installed, bookworm has" offered
    } else if (!(candidate in versions)) {
      print name ": candidate " candidate ", bookworm has" offered
    }
    delete versions; delete upstreams; offered = ""
  }
  function upstream(version) { sub(/-[^-]*$/, "", version); return version }
  /^[^ ]/ { close_package(); name = $1; sub(/:$/, "", name) }
  /^  Installed:/ { installed = $2 }
  /^  Candidate:/ { candidate = $2 }
  /^ (\*\*\*|   ) [^ ]+ -?[0-9]+$/ { version = $(NF - 1) }
  / bookworm(-updates|-security)?\// {
    versions[version]; upstreams[upstream(version)]
    offered = offered " " version
  }
  END { close_package(); print seen + 0 " seen" }')

count=$(sed -n 's/ seen$//p' <<<"$bad")
bad=$(sed '/ seen$/d' <<<"$bad")
if [ "$count" -ne ${#packages[@]} ]; then
  echo "apt-cache knows $count of ${#packages[@]} packages; unknown:"
  for name in "${packages[@]}"; do
    [ -n "$(apt-cache policy "$name")" ] || echo "  $name"
  done
  exit 1
fi
if [ -n "$bad" ]; then
  echo "$bad"
  exit 1
fi
echo "$count packages, all in bookworm"
