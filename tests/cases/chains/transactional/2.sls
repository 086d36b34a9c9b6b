schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 12
    -   chunk: 3
    -   next_action_id: 4
    -   current_action_id: 3
    -   reboot_required: true
    -   at_time: 5
