b: 2
seen: {{ salt['pillar.get']('a', 'none') }}
