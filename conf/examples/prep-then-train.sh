#!/bin/bash
# Trains on data that another script fetches first. No card is held while it does.
#
#   cd conf/examples; DATA_FROM=/mnt/archive/faces gqsub prep-then-train.sh python3 train.py
#
# The path behind --prep is taken from where gqsub is run.
#
#GQ --job-name=train
#GQ --prep=fetch-data.sh
#GQ --gpus=1 --cpus-per-task=8 --mem=32G
#GQ --time=8h
#GQ --output=%x-%j.log --open-mode=append

set -eu
: "${1:?which training}"
exec "$@" --data "${DATA:-data}"
