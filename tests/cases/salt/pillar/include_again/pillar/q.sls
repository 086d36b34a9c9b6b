q: {{ x|default('none') }}
