mgr_actionchain_7_action_20_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_line: echo before
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 7
    -   chunk: 2
    -   next_action_id: 22
    -   require:
        -   mgrcompat: mgr_actionchain_7_action_20_chunk_1
mgr_actionchain_7_action_21_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkginstall
    -   kwargs:
            pillar:
                param_pkgs:
                -   - catena
                    - 1.4.2
                -   - tree
                    - ''
    -   require:
        -   mgrcompat: mgr_actionchain_7_action_20_chunk_1
clean_action_chain_if_previous_failed:
    mgrcompat.module_run:
    -   name: mgractionchains.clean
    -   onfail:
        -   mgrcompat: mgr_actionchain_7_action_21_chunk_1
force_restart_if_needed:
    cmd.script:
    -   source: salt://actionchains/force_restart_minion.sh
    -   require:
        -   mgrcompat: mgr_actionchain_7_action_21_chunk_1
