agent_installed:
    mgrcompat.module_run:
    -   name: agent.verify
    -   sha256: '1111111111111111111111111111111111111111111111111111111111111111'
    -   version: '1.4.2'
