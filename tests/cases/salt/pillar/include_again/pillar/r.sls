include: [s]
r: {{ x|default('none') }}
