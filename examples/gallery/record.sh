#!/bin/sh
# Records five programs and simulates each recording on two machines. Usage: `make gallery`, or
#   sh examples/gallery/record.sh [DIRECTORY]
# The script writes all files into DIRECTORY (default: out/gallery), and skips programs that are not
# installed. The variable BINHOP gives the binhop command.
set -eu
binhop=${BINHOP:-binhop}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-out/gallery}"
cd "${1:-out/gallery}"
rm -f -- *.parquet *.json *.seconds *.version
cp "$here/words.c" "$here/people.sql" "$here/nested.py" .
seq 20000 | awk 'BEGIN { srand(1) } { print rand(), $1 }' | sort | cut -d ' ' -f 2 > lines

# show NAME PROGRAM OPTIONS... -- COMMAND... records COMMAND and simulates the recording, if PROGRAM is
# installed.
show() {
  name=$1 program=$2
  shift 2
  if ! command -v "$program" > /dev/null; then
    echo "gallery: $program is not installed: skipped" >&2
    return
  fi
  "$program" --version | head -n 1 > "$name.version"
  begin=$(date +%s.%N)
  $binhop record -o "$name.parquet" "$@"
  date +%s.%N | awk -v begin="$begin" '{ print $1 - begin }' > "$name.seconds"
  $binhop inspect "$name.parquet" --json "$name.inspect.json" --quiet
  for machine in kh90 skylake; do
    $binhop run "$machine" "$name.parquet" --seeds 32 --json "$name.$machine.json" --quiet
  done
}

show gcc gcc -- gcc -O2 -c words.c
show sort sort -- sort -o sorted lines
show sqlite3 sqlite3 -- sh -c 'sqlite3 :memory: < people.sql'
# The first python3 of PATH may be a script that starts another Python.
show python3 "${PYTHON3:-/usr/bin/python3}" -- "${PYTHON3:-/usr/bin/python3}" nested.py
# The server uses a socket of its own, so that it does not disturb other servers.
show redis redis-server --only redis-server -- sh -c '
  redis-server --port 0 --unixsocket "$PWD/redis.sock" --save "" --appendonly no > redis.log &
  until redis-cli -s "$PWD/redis.sock" ping > redis.log 2>&1; do sleep 0.1; done
  redis-benchmark -s "$PWD/redis.sock" -n 4000 -c 4 -t set,get,lpush,lrange_100 -q
  redis-cli -s "$PWD/redis.sock" shutdown nosave
  wait'
python3 "$here/table.py" .
