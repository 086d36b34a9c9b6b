db:
  memory_mib: 512
