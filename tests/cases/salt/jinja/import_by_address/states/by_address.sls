{% from 'salt://names.jinja' import name %}
{{ name }}:
  test.nop
