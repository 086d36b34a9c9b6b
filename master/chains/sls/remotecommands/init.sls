{#- Runs one script or one command line. Everything from the pillar is written as JSON, which YAML
    reads as exactly that text: nothing that an operator typed becomes part of this file. #}
{%- set script = pillar.get('mgr_remote_cmd_script') %}
{%- set line = pillar.get('mgr_remote_cmd_line') %}
{%- if script %}
mgr_remote_cmd_script:
  cmd.script:
    - name: {{ script | tojson }}
    - source: {{ script | tojson }}
{%- elif line %}
mgr_remote_cmd_line:
  cmd.run:
    - name: {{ line | tojson }}
{%- else %}
mgr_remote_cmd_missing:
  test.fail_without_changes:
    - name: "remotecommands needs the pillar mgr_remote_cmd_script or mgr_remote_cmd_line"
{%- endif %}
{%- if script or line %}
  {%- if pillar.get('mgr_remote_cmd_runas') %}
    - runas: {{ pillar['mgr_remote_cmd_runas'] | tojson }}
  {%- endif %}
  {%- if pillar.get('mgr_remote_cmd_group') %}
    - group: {{ pillar['mgr_remote_cmd_group'] | tojson }}
  {%- endif %}
  {%- if pillar.get('mgr_remote_cmd_timeout') %}
    - timeout: {{ pillar['mgr_remote_cmd_timeout'] | tojson }}
  {%- endif %}
{%- endif %}
