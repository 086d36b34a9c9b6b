#!/bin/sh
# First action of the chain: writes down what the host is before anything changes.
#
# In the demo a host is a folder, named by CATENA_DEMO_HOST; on a real host that is unset and the
# files lie where they belong.
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
