#!/bin/sh
# First action of the chain: records facts about the host before anything changes.
#
# In the demo, CATENA_DEMO_HOST is the folder of a simulated host. On a real host the variable is
# unset and the script uses the normal paths.
set -eu
root=${CATENA_DEMO_HOST:+$CATENA_DEMO_HOST/root}
boot_id_file=${CATENA_DEMO_HOST:+$CATENA_DEMO_HOST/boot_id}
boot_id=$(cat "${boot_id_file:-/proc/sys/kernel/random/boot_id}")

mkdir -p "$root/var/lib/inventory" "$root/var/log"
{
    echo "kernel: $(uname -sr)"
    echo "boot: $boot_id"
    echo "processors: $(getconf _NPROCESSORS_ONLN)"
} > "$root/var/lib/inventory/before.txt"
echo "$boot_id" >> "$root/var/log/boots"
echo "inventory of boot $boot_id written"
