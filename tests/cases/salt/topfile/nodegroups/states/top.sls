base:
  names: [{match: nodegroup}, a]
  listed: [{match: nodegroup}, b]
  nested: [{match: nodegroup}, c]
  gone: [{match: nodegroup}, d]
  'N@names and not N@other': [e]
