#!/bin/sh
# Last state of a chunk that upgrades the agent. The agent restarts itself as soon as this chunk's
# results are durable, so there is nothing to force: a restart from here would only come earlier,
# while the chunk still runs. A site whose agent is started in a way of its own puts a file of this
# name into its file roots; that one is used instead.
echo "the agent restarts itself when this chunk has ended"
