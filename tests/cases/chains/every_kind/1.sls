mgr_actionchain_9_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: system.reboot
    -   at_time: 0
schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 9
    -   chunk: 2
    -   next_action_id: 2
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_1_chunk_1
