"""Package repositories: lists, files and keys of apt, dnf and zypper."""
