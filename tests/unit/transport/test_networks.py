from __future__ import annotations

import pytest

from catena.transport.networks import Network, network


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.1.2.3", Network("10.1.2.3", "10.1.2.0/24")),
        ("::ffff:10.1.2.3", Network("10.1.2.3", "10.1.2.0/24")),
        ("2001:db8:1:2:3::4", Network("2001:db8:1:2::/64", "2001:db8:1::/48")),
        ("fe80::1%eth0", Network("fe80::/64", "fe80::/48")),
        ("", Network("", "")),
        ("nonsense", Network("nonsense", "nonsense")),
    ],
)
def test_address_belongs_to_its_network_prefix(address: str, expected: Network) -> None:
    assert network(address) == expected
