mgr_actionchain_9_action_2_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkgupgrade
    -   kwargs:
            pillar:
                param_pkgs:
                -   - bash
                    - ''
mgr_actionchain_9_action_3_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods:
        - packages.pkgremove
    -   kwargs:
            pillar:
                param_pkgs:
                -   - nano
                    - ''
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_2_chunk_2
mgr_actionchain_9_action_4_chunk_2:
    mgrcompat.module_run:
    -   name: test.echo
    -   args:
        - 'a: b'
        - 3
        - null
    -   kwargs:
            text: 'yes'
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_3_chunk_2
mgr_actionchain_9_action_5_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: remotecommands
    -   kwargs:
            pillar:
                mgr_remote_cmd_group: staff
                mgr_remote_cmd_runas: joe
                mgr_remote_cmd_script: salt://scripts/script_5.sh
                mgr_remote_cmd_timeout: 60
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_4_chunk_2
mgr_actionchain_9_action_6_chunk_2:
    mgrcompat.module_run:
    -   name: state.apply
    -   mods: web
    -   kwargs:
            pillar:
                note: "\x7B{ 7*7 }}"
            test: true
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_5_chunk_2
mgr_actionchain_9_action_7_chunk_2:
    mgrcompat.module_run:
    -   name: system.reboot
    -   at_time: 5
    -   require:
        -   mgrcompat: mgr_actionchain_9_action_6_chunk_2
