mgr_actionchain_5_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: web
mgr_actionchain_5_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - web
    -   require:
        -   mgrcompat: mgr_actionchain_5_action_1_chunk_1
mgr_actionchain_5_action_3_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - web
        - app.db
    -   kwargs:
            pillar:
                hosts:
                - a
                - 10.0.0.1
                - '1.0'
                rules:
                -   port: 80
                -   - x
                    -   - 'y'
                - []
    -   require:
        -   mgrcompat: mgr_actionchain_5_action_2_chunk_1
mgr_actionchain_5_action_4_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkginstall
    -   kwargs:
            pillar:
                param_pkgs:
                -   - nginx
                    - 1.22.1-9+deb12u1
                -   - libc6
                    - amd64
                    - ''
                -   - zlib
                    - noarch
                    - 1:2.0-3
    -   require:
        -   mgrcompat: mgr_actionchain_5_action_3_chunk_1
