"""docker.*: containers, images, networks and volumes, by the command line of docker or podman."""
