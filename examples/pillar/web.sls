web:
  port: {{ 8080 if grains['id'] == 'web1' else 8081 }}
