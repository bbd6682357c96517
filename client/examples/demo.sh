#!/usr/bin/env bash
# Fills the gaps of a real series through a real server: starts attnd on free
# ports, hides 40 blocks of 13 weeks of the CO2 series, asks for every week, plots,
# and stops the server again.
#
#   client/examples/demo.sh BUILD_DIR     the folder with attnd and attnctl
#
# Writes build/demo/co2.svg and co2.csv below the current folder. The last line
# is attnctl's verdict. Exit 0 when everything, the server's end included, went
# well.
set -euo pipefail

if [ $# -ne 1 ]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 4
fi
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=build/demo
log=$results/attnd.log
mkdir -p "$results"
: >"$log"

server=
stop_server() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
}
trap stop_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() { # message
  echo "demo: $1; the server's log:" >&2
  cat "$log" >&2
  exit 1
}

"$build/attnd" --config "$here/attnd.yaml" 2>"$log" &
server=$!

# The line with "event":"listening" names the port.
target=
for _ in $(seq 600); do
  target=$(sed -n '/"event": *"listening"/s/.*"grpc": *"\([^"]*\)".*/\1/p' "$log")
  [ -z "$target" ] || break
  kill -0 "$server" 2>/dev/null || fail "attnd ended early"
  sleep 0.1
done
[ -n "$target" ] || fail "attnd says no port after 60 s"

for _ in $(seq 600); do
  state=$("$build/attnctl" health --target "$target" 2>/dev/null) && break
  sleep 0.1
done
[ "${state-}" = SERVING ] || fail "attnd is not SERVING after 60 s"

verdict=$("$build/attnctl" interpolate "$here/co2_weekly.csv" \
  --target "$target" --at 7d --encoding co2,co2_level --plane-weights 8,4 \
  --holdout 40x13 --seed 1 --unit-label ppm \
  --title "Atmospheric CO2 at Mauna Loa, weekly" \
  --out "$results/co2.csv" --plot "$results/co2.svg") ||
  fail "attnctl interpolate failed"

kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
[ "$code" -eq 0 ] || fail "attnd ended with $code after SIGTERM"
echo "$verdict"
