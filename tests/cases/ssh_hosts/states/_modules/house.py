"""A module of the house: what it answers shows where it runs."""


def describe(name):
    """Say which host and which Debian this is, by other functions and by grains."""
    return "{} of {} on {}".format(name, __salt__["cmd.run"]("hostname"), __grains__["oscodename"])


def colour():
    """Return the pillar's colour."""
    return __pillar__["colour"]
