mgr_actionchain_131_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_runas: foobar
                mgr_remote_cmd_script: salt://scripts/script_1.sh
mgr_actionchain_131_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: system.reboot
    -   at_time: 1
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_1_chunk_1
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 131
    -   chunk: 2
    -   next_action_id: 3
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_2_chunk_1
