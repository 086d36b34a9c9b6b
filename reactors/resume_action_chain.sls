# A minion came up: let it go on with the chain that it was in. Without a resume file the answer
# is {}; the minion itself judges whether the boot (or the agent) is a new one.
#
# `resume` names the run that the minion's resume file named when its agent came up; it is empty
# where there is none, or where the agent is too old to be told.
resume_action_chain:
  local.mgractionchains.resume:
  - tgt: {{ data['id'] | json }}
  - tgt_type: list
  - args: {{ (data.get('resume') or {}) | json }}
  - metadata:
      suma-action-chain: true
