agent_installed:
    mgrcompat.module_run:
    -   name: agent.verify
    -   version: 1.4.2
