mgr_actionchain_12_action_4_chunk_3:
    mgrcompat.module_run:
    -   name: state.apply
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.clean
    -   actionchain_id: 12
    -   current_action_id: 5
    -   reboot_required: true
    -   require:
        -   mgrcompat: mgr_actionchain_12_action_4_chunk_3
