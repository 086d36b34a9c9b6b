mgr_actionchain_131_action_1_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_runas: joe
                mgr_remote_cmd_script: salt://scripts/script_1.sh
mgr_actionchain_131_action_2_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   require:
        -   mgrcompat: mgr_actionchain_131_action_1_chunk_1
