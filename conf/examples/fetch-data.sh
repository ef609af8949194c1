#!/bin/bash
# Copies the folder $DATA_FROM to $DATA (data), unless that was done before. Runs before prep-then-train.sh, in its directory.

set -eu
from=${DATA_FROM:?where the data is}
to=${DATA:-data}

if [ -e "$to/.complete" ]; then
  echo "$to is there"
  exit
fi
mkdir -p "$to"
cp -R "$from/." "$to/"
touch "$to/.complete"
