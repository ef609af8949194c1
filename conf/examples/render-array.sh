#!/bin/bash
# Renders frames of a scene, a frame a task, eight at a time.
#
#   gqsub render-array.sh shot.blend                        frames 1 to 240
#   gqsub --array=1-240:10%4 render-array.sh shot.blend     every tenth one, four at a time
#   gqsub --rerun-failed=JOB                                those that failed, once more
#   gqstat -j JOB                                           how far it is, and when it will be done
#
# $RENDERER is the program (blender), $FRAMES the folder of the frames (frames).
#
#GQ --job-name=render
#GQ --array=1-240%8
#GQ --gpus=1 --cpus-per-task=4 --mem=8G
#GQ --time=30m
#GQ --output=%x-%A_%a.log
# A frame that fails is tried twice more: a licence server may have been away.
#GQ --retry=2
# Take one # away to be told of the end:
##GQ --mail-type=END,FAIL

set -eu
scene=${1:?which scene}
frames=${FRAMES:-frames}

mkdir -p "$frames"
exec "${RENDERER:-blender}" --background "$scene" \
  --render-output "$frames/####" --render-frame "$GQ_ARRAY_TASK_ID"
