"""Service providers: systemd and SysV behind one protocol."""
