"""Package repositories that a test makes for itself, inside its root."""

from __future__ import annotations

from tests.support.debian_roots import Root

_CONTROL = """Package: {name}
Version: {version}
Architecture: all
Maintainer: nobody <nobody@example.org>
Depends: {depends}
Description: made by a test
"""

_SPEC = """Name: {name}
Version: {version}
Release: 1
Summary: made by a test
License: none
BuildArch: noarch
%description
made by a test
%install
mkdir -p %{{buildroot}}/usr/share/{name}
echo {version} > %{{buildroot}}/usr/share/{name}/version
%files
/usr/share/{name}/version
"""


def deb(root: Root, name: str, version: str, depends: str = "") -> str:
    """Build a package; return its path inside."""
    folder = f"/build/{name}_{version}"
    root.write(f"{folder}/DEBIAN/control", "".join(
        line for line in _CONTROL.format(name=name, version=version, depends=depends)
        .splitlines(keepends=True) if line != "Depends: \n"
    ))  # fmt: skip
    root.write(f"{folder}/DEBIAN/conffiles", f"/etc/{name}.conf\n")
    root.write(f"{folder}/etc/{name}.conf", f"version {version}\n")
    root.write(f"{folder}/usr/share/{name}/version", f"{version}\n")
    path = f"/repo/{name}_{version}_all.deb"
    (root.path / "repo").mkdir(exist_ok=True)
    root.run("dpkg-deb", "--build", "--root-owner-group", folder, path)
    return path


def publish_debs(root: Root) -> None:
    """Make /repo the only repository of apt."""
    listing = root.run("sh", "-c", "cd /repo && dpkg-scanpackages --multiversion .").out
    root.write("/repo/Packages", listing)
    root.write("/etc/apt/sources.list", "deb [trusted=yes] file:/repo ./\n")


def rpm(root: Root, name: str, version: str) -> None:
    """Build a package into /rpms."""
    root.write(f"/build/{name}.spec", _SPEC.format(name=name, version=version))
    root.run(
        "rpmbuild", "-bb", "--quiet", "--define", "_rpmdir /rpms", "--define",
        "_topdir /build/rpm", f"/build/{name}.spec",
    )  # fmt: skip


_PATCH = """<?xml version="1.0"?>
<updates><update from="test" status="stable" type="security" version="1">
<id>{patch}</id><title>a patch</title><release>1</release><issued date="2026-01-01 00:00:00"/>
<severity>low</severity><references/><description>made by a test</description>
<pkglist><collection short="t"><name>t</name>
<package name="{name}" version="{version}" release="1" epoch="0" arch="noarch"
 src="{name}-{version}-1.src.rpm"><filename>{name}-{version}-1.noarch.rpm</filename></package>
</collection></pkglist></update></updates>
"""


def patch(root: Root, patch: str, name: str, version: str) -> None:
    """Add a patch to /rpms, after `publish_rpms`; it brings a version of a package."""
    text = _PATCH.format(patch=patch, name=name, version=version)
    root.write("/build/updateinfo.xml", text)
    root.run("modifyrepo_c", "/build/updateinfo.xml", "/rpms/repodata")


def publish_rpms(root: Root) -> None:
    """Make /rpms the only repository of dnf and zypper."""
    root.run("createrepo_c", "--quiet", "/rpms")
    # Debian gives every user an rpm database of his own; elsewhere there is one.
    root.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
    # No system that zypper runs on has an empty database, and zypper can't read one.
    if not root.run("rpm", "-qa").out:
        rpm(root, "filler", "1.0")
        root.run("rpm", "--install", "--nodeps", "/rpms/noarch/filler-1.0-1.noarch.rpm")
    repo = "[test]\nname=test\nbaseurl=file:///rpms\nenabled=1\ngpgcheck=0\n"
    root.write("/etc/yum.repos.d/test.repo", repo)
    root.write("/etc/zypp/repos.d/test.repo", repo + "autorefresh=0\n")
    root.write("/etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nmetadata_expire=never\n")
    root.write("/etc/dnf/vars/releasever", "1\n")
