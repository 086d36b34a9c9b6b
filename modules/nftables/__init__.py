"""nftables.*: rules of the packet filter, by nft."""
