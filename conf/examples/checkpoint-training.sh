#!/bin/bash
# Trains for longer than one time limit allows. Five minutes before the limit the training is told to stop, it saves, and the job
# goes back into the queue; the next run goes on from there. The same happens when the job makes room for another.
#
#   gqsub checkpoint-training.sh python3 train.py --epochs 100
#
# It takes a node where gqctl reaches gqd; on others, say --retry=100:75, and `exit 75` in place of the requeue.
#
# The training gets --checkpoint-dir with a folder that stays through all runs. It has to save there when it gets SIGTERM, and to
# go on from what it finds there.
#
#GQ --job-name=train
#GQ --gpus=1 --cpus-per-task=8 --mem=32G
#GQ --time=4h
#GQ --requeue --checkpoint
#GQ --signal=B:USR1@300
#GQ --output=%x-%j.log --open-mode=append

set -u
: "${1:?which training}"
job=$GQ_JOB_ID${GQ_ARRAY_TASK_ID:+_$GQ_ARRAY_TASK_ID}

back_into_the_queue() {
  echo "run $GQ_RUN: the time limit is near"
  kill -TERM "$training"
  wait "$training"
  trap exit TERM # which the requeue sends
  gqctl requeue "$job"
  exit
}

echo "run $GQ_RUN, checkpoints in $GQ_CHECKPOINT_DIR"
"$@" --checkpoint-dir "$GQ_CHECKPOINT_DIR" &
training=$!
trap back_into_the_queue USR1
# Whoever ends the job, or takes its cards for another, waits for this shell: it goes when the training has saved.
trap 'kill -TERM "$training"; wait "$training"; exit' TERM
wait "$training"
