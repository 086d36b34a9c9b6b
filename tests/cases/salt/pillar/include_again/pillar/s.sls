s: {{ x|default('none') }}
