"""Package providers: apt, dnf, zypper behind one protocol."""
