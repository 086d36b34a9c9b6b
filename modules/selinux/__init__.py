"""SELinux: mode, booleans, modules, and the contexts of files and ports."""
