mgr_actionchain_13_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkgupgrade
    -   kwargs:
            pillar:
                param_pkgs:
                -   - catena
                    - ''
mgr_actionchain_13_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   require:
        -   mgrcompat: mgr_actionchain_13_action_1_chunk_1
