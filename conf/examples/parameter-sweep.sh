#!/bin/bash
# Runs a program once for each line of a file of parameters. A line holds the words of one run:
#
#   for rate in 0.1 0.01; do for seed in 1 2 3; do echo "--lr $rate --seed $seed"; done; done > params.txt
#   gqsub --each=params.txt --array=%4 parameter-sweep.sh train.py
#
# Line N (from 0) writes into results/N. $PYTHON is the interpreter (python3).
#
#GQ --job-name=sweep
# The smallest slice or card with so much memory:
#GQ --gpu-mem=20G --cpus-per-task=4 --mem=16G
#GQ --time=4h
#GQ --output=%x-%A_%a.log

set -eu
program=${1:?which program}
read -ra parameters <<< "$GQ_ITEM"
results=results/$GQ_ARRAY_TASK_ID

mkdir -p "$results"
echo "$GQ_ITEM" > "$results/parameters"
exec "${PYTHON:-python3}" "$program" "${parameters[@]}" --out "$results"
