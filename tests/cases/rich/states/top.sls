base:
  '*':
    - app
    - parts.*
  'G@tier:front and I@app:port:8080':
    - rendered
  'not E@rich.*':
    - match: compound
    - absent
