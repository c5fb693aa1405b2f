#!/bin/sh
# Compile what fitting and serving need, by doing it once on a little data. Kernels are kept in NUMBA_CACHE_DIR.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
short="--draws 4 --warmup 4 --chains 2 --quiet"
bmcd simulate -o "$folder/clicks.csv" --users 80 --quiet > /dev/null
bmcd fit "$folder/clicks.csv" -o "$folder/clusters.bmcd" --model bmcd --clusters 2-3 $short > /dev/null
bmcd fit "$folder/clicks.csv" -o "$folder/tastes.bmcd" --model tastes --tastes 5 $short > /dev/null
bmcd fit "$folder/clicks.csv" -o "$folder/blend.bmcd" --order rows --quiet > /dev/null
for model in clusters tastes blend; do
    bmcd recommend "$folder/$model.bmcd" -k 5 -o "$folder/recommended.csv" --quiet > /dev/null
    bmcd recommend "$folder/$model.bmcd" -k 5 --histories "$folder/clicks.csv" --quiet > /dev/null
    bmcd explain "$folder/$model.bmcd" 0 40 --history 3,4 --quiet > /dev/null
done
# The doctor checks a sum and a fit of its own, which use kernels that the commands above may not.
bmcd doctor --quiet > /dev/null
