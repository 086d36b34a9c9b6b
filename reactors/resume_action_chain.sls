# A minion came up: let it go on with the chain that it was in. Without a resume file the answer
# is {}; the minion itself judges whether the boot (or the agent) is a new one.
resume_action_chain:
  local.mgractionchains.resume:
  - tgt: {{ data['id'] | json }}
  - tgt_type: list
  - metadata:
      suma-action-chain: true
