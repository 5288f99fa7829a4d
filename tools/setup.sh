#!/usr/bin/env bash
# Create .venv and install Anabranch into it, with every version pinned by constraints.txt.
# Quiet when all goes well; shows the whole log when it does not.
set -euo pipefail
cd "$(dirname "$0")/.."

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
  if command -v "$candidate" >/dev/null && "$candidate" -c "$new_enough" 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  tried=${PYTHON:-python3}
  found=$("$tried" --version 2>/dev/null) || found=missing
  echo "Anabranch needs Python 3.11 or newer; '$tried' is $found." >&2
  echo "Install a newer Python, or name one: make PYTHON=/path/to/python3.11" >&2
  exit 1
fi

extras=all,dev
if ! "$python" -I src/anabranch/spark/session/java.py >/dev/null 2>&1; then
  # Spark needs Java 17 or 21 and this machine has neither, so take it as a wheel.
  extras=$extras,java
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "$python" -m venv .venv &&
    .venv/bin/python -m pip install --disable-pip-version-check --no-input \
      --constraint constraints.txt --editable ".[$extras]"
}
echo "Setting up .venv with [$extras] (first time only, a minute or two)..."
if ! install >"$log" 2>&1; then
  cat "$log" >&2
  echo "Setting up .venv failed; the log is above. Mend the cause and run make again." >&2
  exit 1
fi
touch .venv/.installed
