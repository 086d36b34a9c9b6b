{#- Brings the agent to another version: a wheel of the master's, or a version that was installed
    on this host before. The agent changes over when this job's return is safe. #}
mgr_agent_upgrade:
  mgrcompat.module_run:
    - name: agent.install
    - source: {{ pillar.get('mgr_agent_file', pillar.get('mgr_agent_version')) | tojson }}
{%- if pillar.get('mgr_agent_sha256') %}
    - sha256: {{ pillar['mgr_agent_sha256'] | tojson }}
{%- endif %}
