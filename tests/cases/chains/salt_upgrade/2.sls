pkg_installed:
    pkg.installed:
    -   refresh: true
    -   pkgs:
        -   salt.x86_64: 3008.5-1.1
