"""iptables.*: rules of the packet filter, by iptables and ip6tables."""
