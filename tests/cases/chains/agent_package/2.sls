pkg_installed:
    pkg.installed:
    -   refresh: true
    -   pkgs:
        -   catena: 1.4.2
mgr_actionchain_7_action_22_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - web
        - app.db
    -   kwargs:
            pillar:
                port: 8080
    -   require:
        -   pkg: pkg_installed
