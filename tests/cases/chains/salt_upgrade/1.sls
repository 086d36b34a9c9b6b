schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 7
    -   chunk: 2
mgr_actionchain_7_action_3_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkginstall
    -   kwargs:
            pillar:
                param_pkgs:
                -   - salt
                    - x86_64
                    - 3008.5-1.1
clean_action_chain_if_previous_failed:
    mgrcompat.module_run:
    -   name: mgractionchains.clean
    -   onfail:
        -   mgrcompat: mgr_actionchain_7_action_3_chunk_1
force_restart_if_needed:
    cmd.script:
    -   source: salt://actionchains/force_restart_minion.sh
    -   require:
        -   mgrcompat: mgr_actionchain_7_action_3_chunk_1
