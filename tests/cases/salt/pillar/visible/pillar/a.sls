a: 1
late: {{ pillar.get('b', 'none') }}
