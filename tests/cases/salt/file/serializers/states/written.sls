{% for name in ['python', 'yamlex'] %}
@SANDBOX@/{{ name }}:
  file.serialize:
    - dataset: {a: [1, x]}
    - serializer: {{ name }}
{% endfor %}
