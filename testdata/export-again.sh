#!/bin/sh
# Converts an image to OUT:TAG, by way of tar layers that were given back:
# export-again.sh PROGRAM SOURCE OUT TAG. The first image, the one of the
# exported layers and the squashed one must dump the same.
set -eu
program=$1 source=$2 out=$3 tag=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" convert -q "$source" "$work/first:t"
"$program" export -q "$work/first:t" "$work/given"
"$program" squash -q "$work/first:t" one
"$program" convert -q "$work/given:t" "$out:$tag"
"$program" dump "$work/first:t" >"$work/wanted"
"$program" dump "$work/first:one" | cmp "$work/wanted" -
"$program" dump "$out:$tag" | cmp "$work/wanted" -
