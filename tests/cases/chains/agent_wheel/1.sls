schedule_next_chunk:
    mgrcompat.module_run:
    -   name: mgractionchains.next
    -   actionchain_id: 8
    -   chunk: 2
mgr_actionchain_8_action_31_chunk_1:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.agentupgrade
    -   kwargs:
            pillar:
                mgr_agent_file: salt://actionchains/agent_31/catena-1.4.2-py3-none-any.whl
                mgr_agent_sha256: '1111111111111111111111111111111111111111111111111111111111111111'
                mgr_agent_version: 1.4.2
clean_action_chain_if_previous_failed:
    mgrcompat.module_run:
    -   name: mgractionchains.clean
    -   onfail:
        -   mgrcompat: mgr_actionchain_8_action_31_chunk_1
force_restart_if_needed:
    cmd.script:
    -   source: salt://actionchains/force_restart_minion.sh
    -   require:
        -   mgrcompat: mgr_actionchain_8_action_31_chunk_1
