{#- Last action: fails unless all earlier actions and the reboot have really happened. #}
{%- from "map.jinja" import root with context %}
{%- set boot_id_file = root | regex_replace('/root$', '/boot_id') if root
    else '/proc/sys/kernel/random/boot_id' %}
verify_greeter:
  cmd.run:
    - name: "'{{ root }}/usr/bin/greeter' {{ grains['id'] }} | grep 'greeter 1.0'"

verify_page:
  cmd.run:
    - name: "grep 'Hello' '{{ root }}/srv/www/index.html'"

verify_reboot:
  cmd.run:
    # The first action recorded its boot id.
    - name: "! grep -qF -f '{{ boot_id_file }}' '{{ root }}/var/lib/inventory/before.txt'"

note_boot:
  cmd.run:
    - name: "cat '{{ boot_id_file }}' >> '{{ root }}/var/log/boots'"
    - require:
      - cmd: verify_reboot
