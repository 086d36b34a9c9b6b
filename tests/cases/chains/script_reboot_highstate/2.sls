mgr_actionchain_131_action_3_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
