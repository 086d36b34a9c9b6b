mgr_actionchain_12_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_line: uname -a
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 12
    -   chunk: 2
    -   next_action_id: 3
    -   current_action_id: 2
    -   reboot_required: true
    -   require:
        -   mgrcompat: mgr_actionchain_12_action_1_chunk_1
